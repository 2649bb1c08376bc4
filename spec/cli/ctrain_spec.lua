-- The ctrain program: options, exit codes and messages as lua5.4 has them.
local process = require "spec.support.process"

local ctrain = process.quote(os.getenv("CTRAIN") or "build/bin/ctrain")
local lua = "lua5.4"

-- Both programs on the same command line, in the same folder.
local function both(arguments, input)
  return process.run(ctrain .. " " .. arguments, input), process.run(lua .. " " .. arguments, input)
end

describe("ctrain on the command line", function()
  local folder

  local function script(name, text)
    local file = assert(io.open(folder .. "/" .. name, "wb"))
    file:write(text)
    file:close()
    return process.quote(folder .. "/" .. name)
  end

  before_each(function() folder = process.folder() end)
  after_each(function() process.remove(folder) end)

  it("runs a script with its arguments in arg and ...", function()
    local path = script("a.lua", "print(arg[0], #arg, arg[1], arg[2], ...)")
    local mine, theirs = both(path .. " one 'two words'")
    assert.equal(0, mine.code)
    assert.equal(theirs.out, mine.out)
  end)

  for _, arguments in ipairs { "-e 'print(1 + 1)'", "-e 'x = 3' -e 'print(x)'", "'-eprint(7)'", "-e 'print(...)'",
    "-l string -e 'print(string.rep(\"ab\", 2))'", "- one two", "-e 'os.exit(7)'", "-e 'os.exit(false)'",
    "-l no_such_module", "-e", "-e 'error()'", "-e 'error(nil)'", "-e 'error({})'", "-W -e 'warn(\"w\")'",
    "-e 'warn(\"w\")'" } do
    it(("%s does what it does in lua5.4"):format(arguments), function()
      local mine, theirs = both(arguments, "print('from stdin', ...)\n")
      assert.equal(theirs.code, mine.code)
      assert.equal(theirs.out, mine.out)
    end)
  end

  it("gives exit code 1 and a traceback on standard error for an error", function()
    local path = script("bad.lua", "local function f()\n  error('broken')\nend\nf()\nreturn 1\n")
    local mine, theirs = both(path)
    assert.equal(1, mine.code)
    assert.equal(theirs.code, mine.code)
    assert.equal("", mine.out)
    assert.is_truthy(mine.err:find("bad.lua:2: broken", 1, true), mine.err)
    assert.is_truthy(mine.err:find("stack traceback:", 1, true), mine.err)
    assert.is_truthy(mine.err:find("^ctrain: "), mine.err)
  end)

  for _, source in ipairs { "error('broken')", "error({})", "error()", "error(5)", "error('no line', 0)",
    "local function f() return f() + 1 end f()", "assert(false)", "coroutine.wrap(function() error('inside') end)()",
    "error(setmetatable({}, { __tostring = function() return 'an object' end }))", "x = = 1" } do
    it(("says of %s what lua5.4 says"):format(source), function()
      local mine, theirs = both(script("bad.lua", source .. "\n"))
      assert.equal(theirs.code, mine.code)
      local function levels(text) return (text:gsub("^[%w.]+: ", ""):gsub("skipping %d+", "skipping some")) end
      assert.equal(levels(theirs.err), levels(mine.err))
    end)
  end

  it("gives a long message in full, with its traceback", function()
    local mine, theirs = both("-e 'error((\"x\"):rep(5000))'")
    assert.equal((theirs.err:gsub("^lua5%.4", "")), (mine.err:gsub("^ctrain", "")))
  end)

  it("ignores Lua's environment variables with -E", function()
    local set = "LUA_INIT='print(1)' LUA_PATH='/nowhere/?.lua' "
    assert.equal("1\ntrue\n", process.run(set .. ctrain .. " -e 'print(package.path == \"/nowhere/?.lua\")'").out)
    assert.equal("false\n", process.run(set .. ctrain .. " -E -e 'print(package.path == \"/nowhere/?.lua\")'").out)
  end)

  it("names a syntax error's line", function()
    local mine = process.run(ctrain .. " " .. script("s.lua", "x = = 1\n"))
    assert.equal(1, mine.code)
    assert.is_truthy(mine.err:find("s.lua:1:", 1, true), mine.err)
  end)

  it("names a script that does not exist", function()
    local mine, theirs = both("/no/such/script.lua")
    assert.equal(theirs.code, mine.code)
    assert.is_truthy(mine.err:find("/no/such/script.lua", 1, true), mine.err)
  end)

  it("shows an error object's tostring, as lua5.4 does", function()
    local path = script("o.lua", "error(setmetatable({}, { __tostring = function() return 'an object' end }))")
    local mine, theirs = both(path)
    assert.equal(theirs.code, mine.code)
    assert.is_truthy(mine.err:find("an object", 1, true), mine.err)
    assert.is_truthy(theirs.err:find("an object", 1, true))
  end)

  it("refuses an unknown option with its usage", function()
    local mine = process.run(ctrain .. " -z")
    assert.equal(1, mine.code)
    assert.is_truthy(mine.err:lower():find("usage", 1, true), mine.err)
    assert.is_truthy(mine.err:find("-z", 1, true), mine.err)
  end)

  it("shows version and help", function()
    local version = process.run(ctrain .. " -v")
    assert.equal(0, version.code)
    assert.is_truthy((version.out .. version.err):find("ctrain %d+%.%d+"), version.out .. version.err)
    local help = process.run(ctrain .. " -h")
    assert.equal(0, help.code)
    assert.is_truthy((help.out .. help.err):lower():find("usage", 1, true))
  end)

  it("ends options at --", function()
    local path = script("d.lua", "print('ran', ...)")
    assert.equal("ran\tx\n", process.run(ctrain .. " -- " .. path .. " x").out)
  end)

  it("carries its Lua files: it works from any folder, without LUA_PATH", function()
    local result = process.run(("cd / && env -u LUA_PATH -u LUA_CPATH %s -e %s"):format(ctrain, process.quote [[
local ct = require "ctrain"
print(ct.ones(2, 3):sum():item(), ct.nn.Linear(2, 2) ~= nil)]]))
    assert.equal("6.0\ttrue\n", result.out, result.err)
  end)

  it("reads a program from a pipe, and prints values of expressions only interactively", function()
    assert.equal("4\n", process.run(ctrain .. " -", "print(2 + 2)").out)
    local interactive = process.run(ctrain .. " -i", "2 + 3\nx = 5\nx * 2\n")
    assert.equal(0, interactive.code)
    assert.is_truthy(interactive.out:find("5", 1, true) and interactive.out:find("10", 1, true), interactive.out)
  end)

  it("goes on after an error in interactive mode, and continues unfinished lines", function()
    local result = process.run(ctrain .. " -i", "error('first')\nfor i = 1, 2 do\nprint('line', i)\nend\n")
    assert.equal(0, result.code)
    assert.is_truthy((result.out .. result.err):find("first", 1, true))
    assert.is_truthy(result.out:find("line\t2", 1, true), result.out)
  end)
end)

describe("a script's error in a tensor operation", function()
  it("comes with the script's line and exit code 1, from ctrain and from the stock interpreter alike", function()
    local source = 'local ct = require "ctrain"\n\nlocal x = ct.zeros(2, 3)\nprint(x:matmul(x))\n'
    for _, interpreter in ipairs { ctrain, process.interpreter() } do
      local result = process.lua(source, { interpreter = interpreter })
      assert.equal(1, result.code)
      assert.is_truthy(result.err:find("script.lua:4: matmul", 1, true), result.err)
    end
  end)
end)
