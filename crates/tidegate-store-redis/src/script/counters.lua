-- Counters: read when a batch first names them, changed in memory, written when every batch is
-- decided.

local modules, known_numbers = {}, {}

local function module_of(algorithm)
  local module = modules[algorithm]
  if not module then
    module = algorithms[algorithm]()
    modules[algorithm] = module
  end
  return module
end

local function numbers_of(spec)
  local n = known_numbers[spec]
  if not n then
    local algorithm = byte(spec)
    n = module_of(algorithm).numbers(spec, 2)
    n.algorithm, n.m, n.spec, n.viewed = algorithm, module_of(algorithm), spec, algorithm >= ROLLING
    known_numbers[spec] = n
  end
  return n
end

-- The layout of a record is its first byte, a small number; that of a text is larger.
local LAYOUT_MAX = 31

local counters = {}

-- The longest block, 366 days.
local BLOCK_MAX = 31622400000000

-- A counter that holds nothing is the same as none.
local function begin(record, n, op, origin)
  record.exists, record.n, record.origin = true, n, origin
  record.a, record.b, record.c, record.view = 0, 0, 0, nil
  if n.viewed then
    -- A value kept under the names of the view, if any, was of another life.
    record.view = n.m.view({ raw = false, a = 0 }, op)
  end
end

-- The counter of an operation, or the layout that it has and this script does not know.
local function counter(op)
  local record = counters[op.key]
  if not record then
    local raw = call('GET', KEYS[op.key])
    record = {
      exists = false, raw = raw, blocked = 0, blocked_for = BLOCK_MAX, a = 0, b = 0, c = 0, origin = false, n = false, view = nil, changed = false,
    }
    if raw then
      local layout = byte(raw)
      local _, spec, at
      if layout == LAYOUT then
        _, record.blocked, record.origin, record.a, record.b, record.c, spec, at = read('>Bdc16dddBc0', raw)
      elseif layout == BLOCKED_LAYOUT then
        _, record.blocked, record.blocked_for, record.origin, record.a, record.b, record.c, spec, at =
          read('>Bddc16dddBc0', raw)
      else
        if not layout or layout > LAYOUT_MAX then error('the record has no layout') end
        return nil, layout
      end
      if at ~= #raw + 1 then error('the record has another length than its layout') end
      record.n, record.exists = numbers_of(spec), true
    end
    counters[op.key] = record
  end
  -- The names of a view come with the first operation of its algorithm.
  if record.exists and not record.view and record.n.viewed and record.n.algorithm == op.n.algorithm then
    record.view = record.n.m.view(record, op)
  end
  if record.exists then
    -- Before the decision and whatever it is: a refused batch could not bring a state back, and the
    -- wait that it is told would begin anew whenever the counter is read again.
    -- A block that lasts longer than it was set for was set under a clock that was ahead.
    local latest = now + record.blocked_for
    if record.blocked > latest then record.blocked, record.changed = latest, true end
    if record.view then
      if record.n.m.bring_back(record.n, record.view, record.c) then
        record.c, record.changed = min(record.c, now), true
      end
    elseif not record.n.viewed then
      local a, b, c = record.n.m.brought_back(record.n, record.a, record.b, record.c, op.n)
      if a ~= record.a or b ~= record.b then record.a, record.b, record.c, record.changed = a, b, c, true end
    end
  end
  return record
end

-- The state under the numbers of an operation, which may keep the instant at which a bucket is
-- full: three numbers, or a view.
local function under(record, n, keeps_instant)
  if not record.exists or record.n.algorithm ~= n.algorithm then return 0, 0, 0 end
  if record.n.spec == n.spec then return record.a, record.b, record.c end
  local carry = keeps_instant and n.m.keep_instant or n.m.carry
  return carry(n, record.a, record.b, record.c, record.n)
end

-- How much longer than it takes to drain a counter is kept, for clocks that step back: ten seconds.
local MARGIN_MS = 10000
-- Later than this is never: ten years.
local MS_MAX = 315360000000

local function save(index, record)
  local n, key = record.n, KEYS[index]
  if not record.exists then
    if record.raw then call('DEL', key) end
    -- Of the view there may be something left whether or not the counter was there before.
    if record.view then n.m.discard(record.view) end
    return
  end
  local left = record.blocked - now
  if record.view then
    record.a = record.view.before or 0
    if not n.m.is_empty(record.view) then left = max(left, n.m.drains(n, record.view)) end
    n.m.save(record.view)
  elseif n.viewed then
    -- Only its block was changed, by an operation of another algorithm, which does not name what
    -- belongs to it.
    left = max(left, 2 * n.window)
  else
    left = max(left, n.m.drains(n, record.a, record.b, record.c))
  end
  local bytes
  if record.blocked > 0 and record.blocked_for < BLOCK_MAX then
    bytes = pack('>Bddc16dddBc0', BLOCKED_LAYOUT, record.blocked, record.blocked_for, record.origin, record.a, record.b,
      record.c, #n.spec, n.spec)
  else
    bytes = pack('>Bdc16dddBc0', LAYOUT, record.blocked, record.origin, record.a, record.b, record.c, #n.spec, n.spec)
  end
  local ms = ceil(max(left, 0) / 1000) + MARGIN_MS
  if given ~= 0 or ms > MS_MAX then
    -- An instant that is given, for tests and simulations, says nothing about the server's own
    -- clock.
    call('SET', key, bytes)
  else
    call('SET', key, bytes, 'PX', ms)
    if record.view then n.m.expire(record.view, ms) end
  end
end
