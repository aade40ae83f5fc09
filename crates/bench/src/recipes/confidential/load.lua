-- The load on encrypted columns, for sysbench 1.0: one prepared statement a transaction.
--
-- Threads count their transactions in a file of words of eight bytes, and end when its first word is
-- not zero. Each thread writes rows of its own ids, so that none waits for another.

local ffi = require("ffi")

ffi.cdef[[
int open(const char *path, int flags);
void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);
]]

sysbench.cmdline.options = {
   tables = {"Number of tables", 1},
   rows = {"Rows of a table", 1000},
   kind = {"Kind of statement: point, range or write", "point"},
   column = {"Column of the condition: id or k", "id"},
   board = {"File to count in", ""},
}

local READ_WRITE = 2
local PROT_READ_WRITE = 3
local MAP_SHARED = 1
local BOARD_SIZE = 4096
local RANGE = 100

local board, connection, statements, deleted

local function map(path)
   local file = ffi.C.open(path, READ_WRITE)
   if file < 0 then
      error("cannot open " .. path)
   end
   local address = ffi.C.mmap(nil, BOARD_SIZE, PROT_READ_WRITE, MAP_SHARED, file, 0)
   if ffi.cast("intptr_t", address) == -1 then
      error("cannot map " .. path)
   end
   return ffi.cast("volatile int64_t *", address)
end

-- A length of 0 stands for an integer.
local function prepare(sql, ...)
   local prepared = {statement = connection:prepare(sql), values = {}}
   for place, length in ipairs({...}) do
      if length == 0 then
         prepared.values[place] = prepared.statement:bind_create(sysbench.sql.type.INT)
      else
         prepared.values[place] = prepared.statement:bind_create(sysbench.sql.type.CHAR, length)
      end
   end
   prepared.statement:bind_param(unpack(prepared.values))
   return prepared
end

local function execute(prepared, ...)
   for place, value in ipairs({...}) do
      prepared.values[place]:set(value)
   end
   return prepared.statement:execute()
end

local function prepare_table(number)
   local name, column = "test" .. number, sysbench.opt.column
   if sysbench.opt.kind == "point" then
      return {prepare("SELECT c FROM " .. name .. " WHERE " .. column .. "=?", 0)}
   elseif sysbench.opt.kind == "range" then
      return {prepare("SELECT SUM(k) FROM " .. name .. " WHERE " .. column .. " BETWEEN ? AND ?", 0, 0)}
   end
   return {
      prepare("UPDATE " .. name .. " SET k=k+1 WHERE id=?", 0),
      prepare("UPDATE " .. name .. " SET c=? WHERE id=?", 120, 0),
      prepare("DELETE FROM " .. name .. " WHERE id=?", 0),
      prepare("INSERT INTO " .. name .. " (id, k, c, pad) VALUES (?, ?, ?, ?)", 0, 0, 120, 60),
   }
end

-- Groups of eleven digits.
local function digits(groups)
   return sysbench.rand.string(string.rep("###########-", groups - 1) .. "###########")
end

local function point()
   local rows = execute(statements[sysbench.rand.uniform(1, sysbench.opt.tables)][1],
                        sysbench.rand.uniform(1, sysbench.opt.rows))
   if sysbench.opt.column == "id" and rows.nrows ~= 1 then
      error("a row is missing")
   end
end

local function range()
   local first = sysbench.rand.uniform(1, sysbench.opt.rows - RANGE + 1)
   local rows = execute(statements[sysbench.rand.uniform(1, sysbench.opt.tables)][1], first, first + RANGE - 1)
   if rows.nrows ~= 1 then
      error("a sum is missing")
   end
end

local function insert_again()
   execute(statements[deleted.number][4], deleted.id, sysbench.rand.uniform(1, sysbench.opt.rows),
           digits(10), digits(5))
   deleted = nil
end

-- An id that only this thread writes.
local function own_id(thread)
   local share = math.floor(sysbench.opt.rows / sysbench.opt.threads)
   return sysbench.rand.uniform(0, share - 1) * sysbench.opt.threads + thread + 1
end

-- A deleted row is the next to be inserted, so that both are as frequent.
local function write(thread)
   local number, id = sysbench.rand.uniform(1, sysbench.opt.tables), own_id(thread)
   local which = sysbench.rand.uniform(1, 4)
   if deleted and (which > 2 or (deleted.number == number and deleted.id == id)) then
      insert_again()
   elseif which == 1 then
      execute(statements[number][1], id)
   elseif which == 2 then
      execute(statements[number][2], digits(10), id)
   else
      execute(statements[number][3], id)
      deleted = {number = number, id = id}
   end
end

local kinds = {point = point, range = range, write = write}

function thread_init()
   board = map(sysbench.opt.board)
   connection = sysbench.sql.driver():connect()
   statements = {}
   for number = 1, sysbench.opt.tables do
      statements[number] = prepare_table(number)
   end
end

function event(thread)
   if board[0] ~= 0 then
      return true
   end
   kinds[sysbench.opt.kind](thread)
   board[1 + thread] = board[1 + thread] + 1
end

function thread_done()
   if deleted then
      insert_again()
   end
   connection:disconnect()
end
