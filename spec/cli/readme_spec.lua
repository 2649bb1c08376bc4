-- What the README shows works as it says.
local process = require "spec.support.process"

describe("the README", function()
  it("shows a script that learns", function()
    local file = assert(io.open "README.md")
    local script = file:read("*a"):match("```lua\n(.-)```")
    file:close()
    local result = process.lua(script)
    assert.equal(0, result.code, result.err)
    assert.is_true(tonumber(result.out:match("loss (%S+)")) < 0.01)
  end)
end)
