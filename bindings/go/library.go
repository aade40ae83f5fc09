package pgseal

/*
#cgo LDFLAGS: -lpgseal_client
#include <stdlib.h>
#include <pgseal_client.h>
*/
import "C"

import (
	"slices"
	"sync"
	"unsafe"
)

// started is a client of the library, until it is stopped.
type started struct {
	mutex  sync.Mutex
	handle *C.pgseal_client
}

// Version is that of the library, with its commit.
func Version() string {
	return C.GoString(C.pgseal_client_version())
}

func start(options map[string]string) (*started, error) {
	if C.pgseal_client_interface() != C.PGSEAL_CLIENT_INTERFACE {
		return nil, Error("this program and its library are of different versions: install both from one release")
	}
	var keywords, values []*C.char
	for keyword, value := range options {
		if value != "" {
			keywords, values = append(keywords, C.CString(keyword)), append(values, C.CString(value))
		}
	}
	defer freeAll(slices.Concat(keywords, values))
	keywords, values = append(keywords, nil), append(values, nil)
	var sentence *C.char
	handle := C.pgseal_client_start(&keywords[0], &values[0], &sentence)
	if handle == nil {
		defer C.pgseal_client_free(sentence)
		return nil, Error(C.GoString(sentence))
	}
	return &started{handle: handle}, nil
}

func freeAll(texts []*C.char) {
	for _, text := range texts {
		C.free(unsafe.Pointer(text))
	}
}

// parameter is what the connection string says of a keyword.
func (client *started) parameter(keyword string) (string, bool) {
	name := C.CString(keyword)
	defer C.free(unsafe.Pointer(name))
	value := C.pgseal_client_parameter(client.handle, name)
	return C.GoString(value), value != nil
}

func (client *started) stop() {
	client.mutex.Lock()
	defer client.mutex.Unlock()
	C.pgseal_client_stop(client.handle)
	client.handle = nil
}
