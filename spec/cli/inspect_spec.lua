-- What the program shows of traced steps and of the cache of compiled ones.
local process = require "spec.support.process"

local ctrain = process.quote(os.getenv "CTRAIN" or "build/bin/ctrain")

local script = [[
local ct = require "ctrain"
local w = ct.ones(4)
local train = ct.trace(function(x)
  local y = (x * w + 1):exp()
  w:copy_(y)
  return y:sum()
end, { compile = false })
local other = ct.trace(function(x) local y = x:softmax(1) return y end, { compile = false })
for _ = 1, 3 do train(ct.ones(4)) end
other(ct.ones(3))
]]

describe("the ctrain program", function()
  local folder
  before_each(function()
    folder = process.folder()
    local file = assert(io.open(folder .. "/script.lua", "w"))
    file:write(script)
    file:close()
  end)
  after_each(function() process.remove(folder) end)

  local function run(arguments, environment)
    return process.run(("cd %s && %s %s %s"):format(process.quote(folder), environment or "", ctrain, arguments))
  end

  local function read(name)
    local file = io.open(folder .. "/" .. name, "rb")
    if not file then return nil end
    local text = file:read("*a")
    file:close()
    return text
  end

  local function write(name, text)
    local file = assert(io.open(folder .. "/" .. name, "wb"))
    file:write(text)
    file:close()
  end

  it("writes the C of each step, which compiles", function()
    local result = run("--emit-c out.c script.lua")
    assert.equal(0, result.code)
    assert.truthy(result.err:find("--emit-c: the step at script.lua:3: out.c", 1, true), result.err)
    assert.truthy(read("out.c"):find("script.lua:4", 1, true))
    assert.truthy(read("out-2.c"):find("script.lua:8", 1, true))
    assert.is_nil(read("out-3.c"))
    assert.equal(0, run("-v; env -u LD_PRELOAD cc -std=gnu11 -fsyntax-only -w out.c out-2.c").code)
  end)

  it("draws the graph before and after fusion", function()
    assert.equal(0, run("--graph=graph.txt script.lua").code)
    local text = read("graph.txt")
    assert.truthy(text:find("recorded: %d+ nodes"))
    assert.truthy(text:find("exp float32 4 <%- %d+  script%.lua:4\n.- copy float32 4 <%- %d+ %-> new state 1"), text)
    assert.truthy(text:find("fused: %d kernels"))
    assert.truthy(text:find("kernel: mul add exp .-script%.lua:4.- <%- input 1, state 1"), text)
    run("--graph graph.dot script.lua")
    text = read("graph.dot")
    assert.truthy(text:find("^digraph step {"))
    assert.truthy(text:find("cluster_recorded.*cluster_fused"))
    assert.truthy(read("graph-2.dot"))
  end)

  it("has graphviz draw an SVG file, or says that it is not there", function()
    local result = run("--graph graph.svg script.lua", "PATH=" .. process.quote(folder))
    assert.equal(1, result.code)
    assert.truthy(result.err:find("drawn by graphviz's dot, which can't be run here", 1, true), result.err)
    assert.is_nil(read("graph.svg"))
    write("dot", '#!/bin/sh\n[ "$1" = -V ] && exit 0\n{ echo "<svg/>"; head -n 1 "$4"; } >"$3"\n')
    os.execute("chmod +x " .. process.quote(folder .. "/dot"))
    result = run("--graph graph.svg script.lua", ("PATH=%s:$PATH"):format(process.quote(folder)))
    assert.equal(0, result.code, result.err)
    assert.equal("<svg/>\ndigraph step {\n", read("graph.svg"))
  end)

  it("says what is wrong with these options", function()
    for arguments, message in pairs {
      ["--graph graph.png script.lua"] = "--graph: 'graph.png' must end in .svg, .dot or .txt",
      ["--graph"] = "'--graph' needs a file",
      ["--emit-c -q script.lua"] = "'--emit-c' needs a file",
      ["--emit-c /nowhere/out.c script.lua"] = "--emit-c: /nowhere/out.c: No such file or directory",
    } do
      local result = run(arguments)
      assert.equal(1, result.code)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
    local result = run("--emit-c out.c -e 'x = 1'")
    assert.equal(0, result.code)
    assert.truthy(result.err:find("--emit-c: the script traced no step", 1, true))
    assert.is_nil(read("out.c"))
  end)

  it("lists the compiled steps that are kept, and removes them and nothing else", function()
    local environment = ("XDG_CACHE_HOME=%s"):format(process.quote(folder))
    assert.equal(folder .. "/ctrain: no compiled steps\n", run("--cache", environment).out)
    local made = run([[-e 'require("ctrain").trace(function(x) return x * 2 end, { wait = true })(1)']], environment)
    assert.truthy(made.err:find("compiled in", 1, true), made.err)
    write("ctrain/notes.txt", "mine")
    write("ctrain/" .. ("a"):rep(32) .. ".txt", "mine")
    local listed = run("--cache", environment).out
    assert.truthy(listed:find("/ctrain: 1 compiled steps, %d+ kB\n  %x+ +%d+ kB  %d+ seconds\n$"), listed)
    assert.equal(listed:match("\n  (%x+)"), run("--cache ctrain").out:match("\n  (%x+)"))
    assert.truthy(run("--cache-clear", environment).out:find("/ctrain: 2 files removed, %d+ kB\n"))
    assert.equal(folder .. "/ctrain: no compiled steps\n", run("--cache", environment).out)
    assert.equal("mine", read("ctrain/notes.txt"))
    assert.equal("mine", read("ctrain/" .. ("a"):rep(32) .. ".txt"))
  end)
end)

describe("ctrain --bisect", function()
  local folder
  before_each(function()
    folder = process.folder()
    local file = assert(io.open(folder .. "/script.lua", "w"))
    file:write([[
local ct = require "ctrain"
local w = ct.ones(4, 3):requires_grad_(true)
local optimizer = ct.optim.SGD({ w }, { lr = 0.1, momentum = 0.5 })
local step = ct.trace(function(x)
  optimizer:zero_grad()
  local y = ct.matmul(ct.nn.functional.dropout(x, 0.5), w)
  local loss = (y:tanh() * 3):sum()
  loss:backward()
  optimizer:step()
  return loss
end)
ct.manual_seed(1)
for _ = 1, 5 do step(ct.rand(2, 4)) end
print(w:sum():item())
]])
    file:close()
  end)
  after_each(function() process.remove(folder) end)

  local function run(arguments, environment)
    return process.run(("cd %s && XDG_CACHE_HOME=%s %s %s %s"):format(process.quote(folder), process.quote(folder),
      environment or "", ctrain, arguments))
  end

  it("compares every run, and leaves what an ordinary one leaves", function()
    local result = run("--bisect script.lua")
    assert.equal(0, result.code, result.err)
    assert.truthy(result.err:find("--bisect: 5 runs of 1 steps, compiled and on the eager loops: the same", 1, true),
      result.err)
    assert.equal(run("script.lua").out, result.out)
  end)

  it("names the kernel that a compiler has got wrong", function()
    local compiler = folder .. "/wrong"
    local file = assert(io.open(compiler, "w"))
    -- tanh(y) * 3 becomes tanh(y) * 4
    file:write([[#!/bin/sh
case "$*" in
*--version*) exec cc --version ;;
esac
for last; do
  case "$last" in *.c) sed -i 's/0x1\.8p+1f\{0,1\}\b/0x1p+2f/g' "$last" ;; esac
done
exec cc "$@"
]])
    file:close()
    os.execute("chmod +x " .. process.quote(compiler))
    local result = run("--bisect script.lua", "CTRAIN_CC=" .. process.quote(compiler))
    assert.equal(1, result.code, result.err)
    assert.truthy(result.err:find("script.lua:13: ", 1, true), result.err)
    assert.truthy(result.err:find("bisect: kernel %d+ %(.-tanh.-script%.lua:[%d,]+%) gives other bits in its '.-': "
      .. "element 1 of float32"), result.err)
  end)

  it("says that there was nothing to compare", function()
    assert.truthy(run("--bisect -e 'x = 1'").err:find("--bisect: the script ran no compiled step", 1, true))
  end)
end)
