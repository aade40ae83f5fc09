"""What a disk holds after a power cut: states of the disk whose writes and flushes recorder.c kept.

A cut at record n leaves everything that was written before the last flush before n. Of the writes since then, which were in
flight, the medium may have kept anything:

    none      nothing
    all       everything
    some      each with one chance in two, whatever the order
    pages     of each write each aligned piece of 4096 bytes with one chance in two
    sectors   of each write each aligned piece of 512 bytes with one chance in two

Pieces of one state are drawn with its own seed, so that a state can be built again. Nothing here mounts or asks a kernel.
"""

import mmap
import random
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct("<IIQ")
WRITE, FLUSH, SAID = 1, 2, 3
MODES = {"none": 0, "all": None, "some": None, "pages": 4096, "sectors": 512}


@dataclass
class Record:
    """One line of the log; `start` is where its bytes lie in the log."""
    kind: int
    length: int
    where: int
    start: int


class Log:
    """The log of one disk, read once."""

    def __init__(self, path):
        self.records, self.flushes = [], []
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        at = 0
        while at + HEADER.size <= len(self.bytes):
            kind, length, where = HEADER.unpack_from(self.bytes, at)
            at += HEADER.size
            if at + length > len(self.bytes):
                break  # the last record, cut short by our own end
            if kind == FLUSH:
                self.flushes.append(len(self.records))
            self.records.append(Record(kind, length, where, at))
            at += length

    def said(self, number):
        """{file: bytes} of what clients had been told before the record of this number."""
        files = {}
        for record in self.records[:number]:
            if record.kind == SAID:
                files[record.where] = files.get(record.where, b"") + self.content(record)
        return files

    def content(self, record):
        return self.bytes[record.start:record.start + record.length]

    def cuts(self, first, last, count, choose):
        """Records at which to cut: of three, two at the moment of a stretch with the most writes in flight, one anywhere."""
        stretch = max(1, (last - first) // count)
        found = []
        for index in range(count):
            begin, end = first + index * stretch, min(last, first + (index + 1) * stretch)
            if index % 3 == 2:
                found.append(choose.randrange(begin, max(begin + 1, end)))
            else:
                found.append(self.busiest(begin, end))
        return found

    def busiest(self, begin, end):
        """The record in this stretch before which most writes had not been flushed."""
        flying = sum(record.kind == WRITE for record in self.records[self.durable(begin):begin])
        best, most = begin, flying
        for number in range(begin, end):
            kind = self.records[number].kind
            flying = 0 if kind == FLUSH else flying + (kind == WRITE)
            if flying > most:
                best, most = number + 1, flying
        return best

    def durable(self, number):
        """The first record that a cut at this one may have lost."""
        earlier = [flush for flush in self.flushes if flush < number]
        return earlier[-1] + 1 if earlier else 0

    def in_flight(self, number):
        """The writes that a cut at this record may have lost, in order."""
        return [record for record in self.records[self.durable(number):number] if record.kind == WRITE]


class Disk:
    """Images of one log. `base` is brought forward from flush to flush, from the image `first` or from nothing; each state is a copy."""

    def __init__(self, log, directory, size, first=None):
        self.log, self.size, self.first = log, size, first
        self.base, self.image = Path(directory) / "base", Path(directory) / "state"
        self.done = None

    def build(self, number, mode, seed):
        """The image of a cut, as a file."""
        self.bring_to(self.log.durable(number))
        copy_sparse(self.base, self.image)
        choose = random.Random(f"{seed} {number} {mode}")
        with open(self.image, "r+b") as image:
            for record in self.log.in_flight(number):
                for start, length in kept(record, mode, choose):
                    self.put(image, record, start, length)
        return self.image

    def bring_to(self, number):
        if self.done is None or number < self.done:
            if self.first:
                copy_sparse(self.first, self.base)
            else:
                with open(self.base, "wb") as base:
                    base.truncate(self.size)
            self.done = 0
        with open(self.base, "r+b") as base:
            for record in self.log.records[self.done:number]:
                if record.kind == WRITE:
                    self.put(base, record, 0, record.length)
        self.done = number

    def put(self, image, record, start, length):
        image.seek(record.where + start)
        image.write(self.log.bytes[record.start + start:record.start + start + length])


def copy_sparse(source, target):
    """Copies an image, whose holes stay holes: most of a disk was never written."""
    subprocess.run(["cp", "--sparse=auto", source, target], check=True)


def kept(record, mode, choose):
    """(offset in the write, length) of the pieces of a write that the medium has."""
    piece = MODES[mode]
    if mode in ("none", "all", "some"):
        return [(0, record.length)] if mode == "all" or (mode == "some" and choose.random() < 0.5) else []
    begin = record.where // piece * piece
    pieces = []
    for at in range(begin, record.where + record.length, piece):
        low, high = max(at, record.where), min(at + piece, record.where + record.length)
        if choose.random() < 0.5:
            pieces.append((low - record.where, high - low))
    return pieces
