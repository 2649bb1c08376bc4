-- Where compiled steps are kept, and what goes wrong around the compiler: none of it loses the run (BUGS 15).
local process = require "spec.support.process"

local script = [[
local ct = require "ctrain"
local core = require "ctrain.core"
local x = ct.arange(8):to("float32")
local trace = core.trace_begin()
trace:finish({ (trace:input(x) * 3 + 1):sum() })
local before = trace:run({ x })[1]:item()
local started, why = trace:compile({ wait = true, directory = os.getenv("STEP_FOLDER") })
local news = started and trace:news()
print(started and "compiled" or "not compiled", type(news) == "table" and tostring(news.cached) or tostring(news))
print(why or (type(news) == "table" and news.note) or "")
print(before == trace:run({ x })[1]:item() and "same" or "different")
]]

-- The script lies in one place, as the lines it is at are in the source.
local place

local function run(folder, env)
  return process.run(("STEP_FOLDER=%s %s %s %s"):format(process.quote(folder), env or "", process.interpreter(), place))
end

setup(function()
  place = os.tmpname()
  local file = assert(io.open(place, "w"))
  file:write(script)
  file:close()
end)

teardown(function() os.remove(place) end)

describe("the cache of compiled steps", function()
  local folder

  before_each(function() folder = process.folder() end)
  after_each(function() process.remove(folder) end)

  it("keeps source and artifact, and finds them again", function()
    local first, second = run(folder), run(folder)
    assert.matches("^compiled%s+false", first.out)
    assert.matches("^compiled%s+true", second.out)
    assert.matches("same", second.out)
    local files = process.run("ls " .. folder).out
    assert.matches("%x+%.c\n", files)
    assert.matches("%x+%.so\n", files)
  end)

  it("makes a damaged artifact anew", function()
    run(folder)
    local damage = "for f in %s/*.so; do printf x | LD_PRELOAD= dd of=$f bs=1 seek=5000 conv=notrunc; done"
    process.run(damage:format(folder))
    local result = run(folder)
    assert.matches("^compiled%s+false", result.out)
    assert.matches("same", result.out)
  end)

  it("is not used where others may write to it", function()
    process.run("chmod 777 " .. folder)
    local result = run(folder)
    assert.matches("^compiled%s+false", result.out)
    assert.matches("others may write", result.out)
    assert.equal("", process.run("ls " .. folder).out)
    process.run("chmod 700 " .. folder)
  end)

  it("serves eight processes that start at once", function()
    local command = ("for i in 1 2 3 4 5 6 7 8; do STEP_FOLDER=%s/steps %s %s & done; wait"):format(folder,
      process.interpreter(), place)
    local result = process.run(command)
    local _, compiled = result.out:gsub("%f[%a]compiled%s+%a", "")
    local _, same = result.out:gsub("same\n", "")
    assert.equal(8, compiled)
    assert.equal(8, same)
    assert.equal("", process.run(("ls %s/steps | grep -v -e '[.]c$' -e '[.]so$'"):format(folder)).out)
  end)
end)

describe("without a compiler that works", function()
  local folder

  before_each(function() folder = process.folder() end)
  after_each(function() process.remove(folder) end)

  it("a step says so and runs on the eager loops", function()
    local result = run(folder, "CTRAIN_CC=/nonexistent/cc")
    assert.matches("^not compiled", result.out)
    assert.matches("no C compiler", result.out)
    assert.matches("same", result.out)
  end)

  it("the message of one that fails is shown", function()
    local name = folder .. "/cc"
    local file = assert(io.open(name, "w"))
    file:write("#!/bin/sh\n[ \"$1\" = --version ] && echo broken cc 1.0 && exit 0\necho it is broken\nexit 3\n")
    file:close()
    process.run("chmod +x " .. name)
    local result = run(folder, "CTRAIN_CC=" .. name)
    assert.matches("^not compiled", result.out)
    assert.matches("it is broken", result.out)
    assert.matches("same", result.out)
  end)
end)
