-- Windows: one count, or two, and the number of the window they were counted in. A window's number
-- never decreases, but where it lies after the next one.

-- The common part of all windows with one count: `a` is the window, `b` the count, `c` the further
-- state. `in_force(n, a, b, c)` gives the window that counts now.
local function counted(in_force)
  local m = {}

  function m.admits(n, a, b, c, op)
    a, b, c = in_force(n, a, b, c)
    if b + op.units > n.limit then return false end
    return true, a, b + op.units, c
  end

  function m.used(n, a, b, c)
    local _, count = in_force(n, a, b, c)
    return count
  end

  function m.charge(n, a, b, c, op)
    a, b, c = in_force(n, a, b, c)
    local count = max(b, min(b + op.units, n.count_max))
    return a, count, c, count - b, 0, 0
  end

  function m.refund(n, a, b, c, units)
    if in_force(n, a, b, c) ~= a then return a, b, c end
    return a, max(0, b - units), c
  end

  function m.undo(n, a, b, c, made)
    if a == made.after_a and b == made.after_b and c == made.after_c then
      return made.before_a, made.before_b, made.before_c
    end
    if a ~= made.after_a then return a, b, c end
    -- A report may have been booked only in part; a charge that opened the window is all it held.
    local earlier = made.before_a == made.after_a and made.before_b or 0
    return a, max(0, b - max(0, made.after_b - earlier)), c
  end

  return m
end

-- Windows of one length, aligned to the epoch or opened by the first hit.
algorithms[FIXED] = function()
  -- floor(125 * us / 2^shift), in steps that stay below 2^53: a first hit is counted in steps of
  -- 2^(shift + 3) ns.
  local function steps(us, shift)
    local step = 2 ^ shift
    local whole = floor(us / step)
    local rest = (us - whole * step) * 125 / step
    return whole * 125 + floor(rest), rest > floor(rest)
  end

  local function in_force(n, a, b, c)
    if n.shift < 0 then
      local window = floor(now / n.window)
      if window <= a then return a, b, 0 end
      return window, 0, 0
    end
    -- In force before its end, and opened by somebody.
    if b > 0 and (steps(now - n.window, n.shift)) < a then return a, b, 0 end
    return n.opens, 0, 0
  end

  local m = counted(in_force)

  function m.numbers(spec, at)
    local n = {}
    n.limit, n.window, n.count_max, n.shift = read('>dddb', spec, at)
    if n.shift >= 0 then
      local whole, more = steps(now, n.shift)
      n.opens = more and whole + 1 or whole
    end
    return n
  end

  local undo = m.undo
  function m.undo(n, a, b, c, made)
    if n.shift < 0 or a ~= made.after_a or (b == made.after_b and a == made.after_a) then
      return undo(n, a, b, c, made)
    end
    local opened = made.before_a ~= made.after_a or made.before_b == 0
    local booked = max(0, made.after_b - (opened and 0 or made.before_b))
    local count = max(0, b - booked)
    -- Without the charge, one of those on top would have opened the window, no later than now. A
    -- window that is over holds nothing: moved to now, it would hold again what has gone.
    if opened and count > 0 and (steps(now - n.window, n.shift)) < a then return max(n.opens, a), count, 0 end
    return a, count, 0
  end

  function m.brought_back(n, a, b, c)
    local last
    if n.shift < 0 then
      last = floor(now / n.window) + 1
    else
      local whole, more = steps(now + n.window, n.shift)
      last = more and whole + 1 or whole
    end
    if a <= last then return a, b, c end
    if b == 0 then return 0, 0, 0 end
    return n.shift < 0 and last - 1 or n.opens, b, 0
  end

  function m.carry(n, a, b, c, from)
    if n.window == from.window and n.shift == from.shift then return a, b, c end
    return 0, 0, 0
  end

  function m.drains(n, a, b, c)
    if n.shift < 0 then return (a + 1) * n.window - now end
    return a * 2 ^ n.shift / 125 + n.window - now
  end

  return m
end

-- Civil windows. Time zones are not known here: the member names the windows around its own clock,
-- and the end of a window, `c`, is kept with it.
algorithms[CALENDAR] = function()
  local function in_force(n, a, b, c)
    if now < c then return a, b, c end
    return n.number, 0, n.ends
  end

  local m = counted(in_force)

  function m.numbers(spec, at)
    local n = {}
    n.limit, n.count_max, n.unit, at = read('>ddB', spec, at)
    -- Zone and first day of the week.
    n.civil = string.sub(spec, at)
    n.number, n.ends = 0, 0
    return n
  end

  -- The windows are those of the operation: under another zone the count is carried over to its
  -- window of now.
  function m.brought_back(n, a, b, c, of)
    if n.civil ~= of.civil or n.unit ~= of.unit or a <= of.next_number then return a, b, c end
    if b == 0 then return 0, 0, 0 end
    return of.number, b, of.ends
  end

  function m.carry(n, a, b, c, from)
    if n.unit ~= from.unit then return 0, 0, 0 end
    if n.civil == from.civil then return a, b, c end
    -- Used units count in the window that now lies in.
    if now >= c or b == 0 then return 0, 0, 0 end
    return n.number, b, n.ends
  end

  function m.drains(n, a, b, c) return c - now end

  return m
end

-- Two counts: `a` is the window, `b` the count of the one before it, `c` its own.
algorithms[SLIDING] = function()
  local m = {}

  function m.numbers(spec, at)
    local n = {}
    n.limit, n.window, n.count_max, n.largest = read('>dddd', spec, at)
    n.number = floor(now / n.window)
    n.left = n.window - (now - n.number * n.window)
    return n
  end

  local function in_force(n, a, b, c)
    if n.number < a then return a, b, c, n.window end
    if n.number == a then return a, b, c, n.left end
    if n.number == a + 1 then return n.number, c, 0, n.left end
    return n.number, 0, 0, n.left
  end

  function m.admits(n, a, b, c, op)
    local left
    a, b, c, left = in_force(n, a, b, c)
    local count = c + op.units
    if count > n.limit then return false end
    local weight, room = b * left, (n.limit - count) * n.window
    if weight < T53 or room < T53 then
      -- One of them is exact, and a double tells on which side of it the other lies.
      if weight > room then return false end
    else
      local wide = big()
      weight = wide.times(wide.of(b), wide.of(left))
      if wide.compare(weight, wide.times(wide.of(n.limit - count), wide.of(n.window))) > 0 then return false end
    end
    return true, a, b, count
  end

  function m.used(n, a, b, c)
    local left
    a, b, c, left = in_force(n, a, b, c)
    local weight = b * left
    if weight < T53 then
      local rest = fmod(weight, n.window)
      return c + (weight - rest) / n.window + (rest > 0 and 1 or 0)
    end
    local wide = big()
    return c + wide.about(wide.over(wide.times(wide.of(b), wide.of(left)), wide.of(n.window)))
  end

  function m.charge(n, a, b, c, op)
    a, b, c = in_force(n, a, b, c)
    local count = max(c, min(c + op.units, n.count_max))
    return a, b, count, count - c, 0, 0
  end

  -- From the current window first.
  function m.refund(n, a, b, c, units)
    local window, previous, current = in_force(n, a, b, c)
    if previous == 0 and current == 0 then return a, b, c end
    local from_current = min(current, units)
    return window, previous - min(previous, units - from_current), current - from_current
  end

  function m.undo(n, a, b, c, made)
    if a == made.after_a and b == made.after_b and c == made.after_c then
      return made.before_a, made.before_b, made.before_c
    end
    local earlier = made.before_a == made.after_a and made.before_c or 0
    local booked = min(max(0, made.after_c - earlier), made.units)
    if a == made.after_a then return a, b, max(0, c - booked) end
    if a == made.after_a + 1 then return a, max(0, b - booked), c end
    return a, b, c
  end

  function m.carry(n, a, b, c, from)
    if n.window == from.window then return a, b, c end
    local used = m.used(from, a, b, c)
    if used == 0 then return 0, 0, 0 end
    return n.number, 0, min(used, n.largest)
  end

  function m.brought_back(n, a, b, c)
    if a <= n.number + 1 then return a, b, c end
    if b == 0 and c == 0 then return 0, 0, 0 end
    return n.number, b, c
  end

  function m.drains(n, a, b, c) return (a + 2) * n.window - now end

  return m
end
