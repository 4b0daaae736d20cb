-- The instants of an exact sliding window: a list of entries, the oldest first. Units charged at
-- one instant are one entry, and entries count through, so that what is used within a window is a
-- search and a subtraction. Time does not go back: a `now` earlier than the newest charge counts as
-- the instant of that charge.
--
-- A view is the part of the list that still counts, [head, tail), and after it the entries made in
-- this call, `made`. Entries are { at, through } and are never changed in place.
algorithms[ROLLING] = function()
  local m = {}

  function m.numbers(spec, at)
    local n = {}
    n.limit, n.window, n.count_max = read('>ddd', spec, at)
    return n
  end

  function m.view(record, op)
    local v = { key = KEYS[op.aux1], head = 0, tail = 0, length = 0, made = {}, before = record.a, seen = {} }
    -- Without a record before this call, a list under this name is left over and counts for
    -- nothing.
    if record.raw then
      v.length = call('LLEN', v.key)
      v.tail = v.length
    end
    v.left_over = not record.raw
    return v
  end

  function m.snapshot(v)
    local made = {}
    for at = 1, #v.made do made[at] = v.made[at] end
    return { v.head, v.tail, made, v.before }
  end

  function m.restore(v, saved) v.head, v.tail, v.made, v.before = saved[1], saved[2], saved[3], saved[4] end

  function m.is_empty(v) return v.tail == v.head and #v.made == 0 end

  local function count(v) return v.tail - v.head + #v.made end

  -- The entry at `index`, from 0.
  local function entry(v, index)
    local at = v.head + index
    if at >= v.tail then return v.made[at - v.tail + 1] end
    local known = v.seen[at]
    if not known then
      -- An entry that is missing raises an error, as one that is damaged.
      known = { read('>dd', call('LINDEX', v.key, at) or '') }
      v.seen[at] = known
    end
    return known
  end

  local function newest(v)
    local entries = count(v)
    if entries > 0 then return entry(v, entries - 1) end
  end

  local function total(v)
    local last = newest(v)
    return last and last[2] or v.before
  end

  local function clamp(v)
    local last = newest(v)
    return last and max(now, last[1]) or now
  end

  -- The first index from `low` on of which `holds` is true, which it then is for all after it.
  -- Looks near `low` first.
  local function first(v, low, holds)
    local high, step = count(v), 1
    while low < high do
      local at = min(low + step - 1, high - 1)
      if holds(entry(v, at)) then
        high = at
        break
      end
      low, step = at + 1, step * 2
    end
    while low < high do
      local middle = floor((low + high) / 2)
      if holds(entry(v, middle)) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- The index of the oldest entry within the window, and what was counted before it.
  local function live(n, v)
    local at = clamp(v)
    local index = first(v, 0, function(e) return at - e[1] < n.window end)
    return index, index > 0 and entry(v, index - 1)[2] or v.before
  end

  local function used(n, v)
    local _, before = live(n, v)
    return total(v) - before
  end

  function m.usage(n, v)
    local units = used(n, v)
    return units, units > 0 and newest(v)[1] + n.window or now
  end

  -- Whether `cost` units are admitted now; if not, when.
  function m.decide(n, v, cost)
    if cost > n.limit then return false, 0 end
    local index, before = live(n, v)
    local excess = total(v) - before + cost - n.limit
    if excess <= 0 then return true end
    -- The first entry with whose leaving enough has left.
    index = first(v, index, function(e) return e[2] - before >= excess end)
    return false, entry(v, index)[1] + n.window
  end

  -- Takes up entries [index, tail) of the list, so that they can be changed.
  local function take_up(v, index)
    local from = v.head + index
    if from >= v.tail then return end
    local made = {}
    for _, bytes in ipairs(call('LRANGE', v.key, from, v.tail - 1)) do made[#made + 1] = { read('>dd', bytes) } end
    for _, e in ipairs(v.made) do made[#made + 1] = e end
    v.tail, v.made = from, made
  end

  -- Charges and forgets what has left the window. The instant it counts from.
  function m.charge(n, v, units)
    local at = clamp(v)
    local gone, before = live(n, v)
    if gone > 0 then
      if v.head + gone > v.tail then
        local made, skip = {}, v.head + gone - v.tail
        for index = skip + 1, #v.made do made[#made + 1] = v.made[index] end
        v.head, v.made = v.tail, made
      else
        v.head = v.head + gone
      end
      v.before = before
    end
    local entries, through = count(v), total(v) + units
    if entries > 0 and entry(v, entries - 1)[1] == at then
      take_up(v, entries - 1)
      v.made[#v.made] = { at, through }
    else
      v.made[#v.made + 1] = { at, through }
    end
    return at
  end

  -- As deep as the debt may be. The instant, and how many units were booked.
  function m.report(n, v, units)
    local booked = min(units, max(0, n.count_max - used(n, v)))
    if booked == 0 then return now, 0 end
    return m.charge(n, v, booked), booked
  end

  -- Drops the newest entries from `index` on.
  local function cut(v, index)
    local keep = v.head + index - v.tail
    if keep <= 0 then
      v.tail, v.made = v.head + index, {}
    else
      for at = #v.made, keep + 1, -1 do v.made[at] = nil end
    end
  end

  -- Takes the newest units out. How many there were.
  function m.refund(n, v, units)
    units = min(units, used(n, v))
    if units == 0 then return 0 end
    local last = total(v) - units
    -- The first entry that reaches what is left keeps what it holds of it.
    local index = first(v, 0, function(e) return e[2] >= last end)
    local before = index > 0 and entry(v, index - 1)[2] or v.before
    if before == last then
      cut(v, index)
    else
      local at = entry(v, index)[1]
      cut(v, index)
      v.made[#v.made + 1] = { at, last }
    end
    return units
  end

  -- Takes out `units` that were charged at `at`, as far as they are there. How many there were.
  function m.take_out(v, at, units)
    local index = first(v, 0, function(e) return e[1] >= at end)
    if index >= count(v) or entry(v, index)[1] ~= at then return 0 end
    local before = index > 0 and entry(v, index - 1)[2] or v.before
    local here = entry(v, index)[2] - before
    units = min(units, here)
    take_up(v, index)
    local made, from = {}, v.head + index - v.tail
    for position, e in ipairs(v.made) do
      if position <= from then
        made[#made + 1] = e
      elseif position > from + 1 or units < here then
        made[#made + 1] = { e[1], e[2] - units }
      end
    end
    v.made = made
    return units
  end

  -- Brings instants that lie more than a window ahead back to now. Whether there were any.
  function m.bring_back(n, v)
    local last = newest(v)
    if not last or last[1] <= now + n.window then return false end
    cut(v, first(v, 0, function(e) return e[1] >= now end))
    v.made[#v.made + 1] = { now, last[2] }
    return true
  end

  function m.drains(n, v) return newest(v)[1] + n.window - now end

  function m.save(v)
    if v.left_over then
      call('DEL', v.key)
    elseif v.head >= v.tail then
      if v.length > 0 then call('DEL', v.key) end
    elseif v.head > 0 or v.tail < v.length then
      call('LTRIM', v.key, v.head, v.tail - 1)
    end
    local from = 1
    while from <= #v.made do
      local entries = {}
      for at = from, min(from + 999, #v.made) do entries[#entries + 1] = pack('>dd', v.made[at][1], v.made[at][2]) end
      call('RPUSH', v.key, unpack(entries))
      from = from + 1000
    end
  end

  function m.discard(v) call('DEL', v.key) end

  function m.expire(v, ms) call('PEXPIRE', v.key, ms) end

  return m
end
