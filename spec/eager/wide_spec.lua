-- Extents, offsets and counts beyond 2^31: what is expanded costs no memory; what is real is among the slow cases.
local ct = require "ctrain"

describe("more than 2^31 elements", function()
  it("are counted and summed where a tensor is expanded", function()
    local t = ct.ones(1):expand(3000000000)
    assert.equal(3000000000, tonumber(t:numel()))
    assert.equal(3000000000, t:sum():item())
  end)

  it("of a narrow type are summed in int64, without a wide copy", function()
    local before = ct.peak_bytes()
    assert.equal(500000000, tonumber(ct.ones({ 1 }, "uint8"):expand(500000000):sum():item()))
    assert.is_true(ct.peak_bytes() - before < 10000000)
  end)

  it("are sliced, and reduced along one dimension", function()
    local t = ct.ones({ 3, 1 }, "int8"):expand(3, 2000000000)
    assert.same({ 3, 10 }, t:narrow(2, 1999999990, 10).shape)
    assert.equal(30, tonumber(t:narrow(2, 1999999990, 10):sum():item()))
    assert.equal(1, t[{ 3, -1 }]:item())
  end)

  it("that are real keep their offsets in views, writes and reductions #slow", function()
    local n = 2 ^ 31 + 1000
    local t = ct.zeros({ n }, "uint8")
    t[n] = 7
    t[2 ^ 31 + 1] = 5
    assert.equal(7, t[-1]:item())
    assert.equal(5, t:narrow(1, 2 ^ 31 + 1, 1):item())
    assert.equal(12, tonumber(t:sum():item()))
    assert.equal(n - 1, tonumber(t:argmax():item()))
    assert.equal(2, tonumber(t:ne(0):sum():item()))
    assert.equal(7, t:flip(1)[1]:item())
  end)
end)
