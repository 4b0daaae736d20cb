-- Token bucket. The state (a, b) is the instant, in ticks, at which what is used will have drained:
-- GCRA's theoretical arrival time; c is the instant of the latest charge, 0 where it is not known.
-- A unit is a whole number of ticks, so charges round nothing; the clock reads at an instant the
-- last tick before it.
algorithms[BUCKET] = function()
  local m = {}

  -- The clock's reading at an instant; its numbers are at a place in the bytes of the limit.
  local function reading(spec, at, us)
    local whole, m0, m1, m2, m3, m4 = read('>I2I4I4I4I4I4', spec, at)
    if whole > 0 then
      -- A whole number of ticks each microsecond.
      local low = (us % T32) * whole
      return floor(us / T32) * whole + floor(low / T32), low % T32
    end
    -- `us` times the ratio, rounded down. The multiplier is the ratio times 2^108, rounded up, and
    -- `us` is below 2^53, so the product is too large by less than 2^-55 and never reaches the next
    -- tick: a tick is at least that far, since the denominator of the ratio is below 2^55.
    local BASE = 16777216
    local x0, rest = us % BASE, floor(us / BASE)
    local x1, x2 = rest % BASE, floor(rest / BASE)
    local sum = floor(x0 * m0 / BASE) + x0 * m1 + x1 * m0
    sum = floor(sum / BASE) + x0 * m2 + x1 * m1 + x2 * m0
    sum = floor(sum / BASE) + x0 * m3 + x1 * m2 + x2 * m1
    sum = floor(sum / BASE) + x0 * m4 + x1 * m3 + x2 * m2
    -- 2^108 is 2^12 in the fifth digit.
    local low = floor((sum % BASE) / 4096)
    sum = floor(sum / BASE) + x1 * m4 + x2 * m3
    low = low + (sum % BASE) * 4096
    return (floor(sum / BASE) + x2 * m4) * 16 + floor(low / T32), low % T32
  end

  function m.numbers(spec, at)
    -- The rate as it was written comes first: two ways to write one rate are different numbers.
    local _, limit, debt, per_us
    _, _, limit, debt, per_us, at = read('>c8c8ddd', spec, at)
    local whole, _, _, _, _, _, unit_h, unit_l, full_h, full_l, over_h, over_l, deep_h, deep_l =
      read('>I2I4I4I4I4I4I4I4I4I4I4I4I4I4', spec, at)
    local n = {
      limit = limit, debt = debt, per_us = per_us, unit_h = unit_h, unit_l = unit_l, full_h = full_h, full_l = full_l,
      over_h = over_h, over_l = over_l, deep_h = deep_h, deep_l = deep_l, now_h = 0, now_l = 0, whole = whole, clock_at = at,
      -- How ticks are counted, to be compared as a whole.
      scale = string.sub(spec, at, at + 29),
      algorithm = 0, m = false, spec = false, viewed = false,
    }
    n.now_h, n.now_l = reading(spec, at, now)
    return n
  end

  -- left + right
  local function plus(left_h, left_l, right_h, right_l)
    local low = left_l + right_l
    if low >= T32 then return left_h + right_h + 1, low - T32 end
    return left_h + right_h, low
  end

  -- left - right, at least 0
  local function minus(left_h, left_l, right_h, right_l)
    local high, low = left_h - right_h, left_l - right_l
    if low < 0 then high, low = high - 1, low + T32 end
    if high < 0 then return 0, 0 end
    return high, low
  end

  local function at_most(left_h, left_l, right_h, right_l)
    return left_h < right_h or (left_h == right_h and left_l <= right_l)
  end

  local function smaller(left_h, left_l, right_h, right_l)
    if at_most(left_h, left_l, right_h, right_l) then return left_h, left_l end
    return right_h, right_l
  end

  local function larger(left_h, left_l, right_h, right_l)
    if at_most(left_h, left_l, right_h, right_l) then return right_h, right_l end
    return left_h, left_l
  end

  function m.admits(n, a, b, c, op)
    local charge_h, charge_l = op.ticks_h, op.ticks_l
    local used_h, used_l = minus(a, b, n.now_h, n.now_l)
    local sum_h, sum_l = plus(used_h, used_l, charge_h, charge_l)
    local fits = at_most(sum_h, sum_l, n.full_h, n.full_l)
    if not fits and n.debt > 0 and at_most(charge_h, charge_l, n.over_h, n.over_l) then
      -- One unit must be left before, and no more than the debt be missing after.
      local before_h, before_l = minus(n.full_h, n.full_l, n.unit_h, n.unit_l)
      local after_h, after_l = minus(n.over_h, n.over_l, charge_h, charge_l)
      local most_h, most_l = smaller(before_h, before_l, after_h, after_l)
      fits = at_most(used_h, used_l, most_h, most_l)
    end
    if not fits then return false end
    local base_h, base_l = larger(a, b, n.now_h, n.now_l)
    base_h, base_l = plus(base_h, base_l, charge_h, charge_l)
    return true, base_h, base_l, max(c, now)
  end

  -- How far a clock may be set back without its bucket being brought back: a second.
  local STEP_MAX = 1000000
  -- Debt reaches as far ahead as a clock that was wrong: the instant of the latest charge tells the
  -- two apart.
  function m.brought_back(n, a, b, c)
    local used_h, used_l = minus(a, b, n.now_h, n.now_l)
    if at_most(used_h, used_l, n.over_h, n.over_l) then return a, b, c end
    local is_ahead = c == 0 and not at_most(used_h, used_l, n.deep_h, n.deep_l)
    if c > now + STEP_MAX then
      -- So far ahead that the next unit would take longer than a full drain.
      local charged_h, charged_l = reading(n.spec, n.clock_at, c)
      charged_h, charged_l = plus(charged_h, charged_l, n.unit_h, n.unit_l)
      local most_h, most_l = plus(n.now_h, n.now_l, n.full_h, n.full_l)
      is_ahead = not at_most(charged_h, charged_l, most_h, most_l)
    end
    if not is_ahead then return a, b, c end
    local full_h, full_l = plus(n.now_h, n.now_l, n.full_h, n.full_l)
    return full_h, full_l, min(c, now)
  end

  function m.drains(n, a, b, c)
    local used_h, used_l = minus(a, b, n.now_h, n.now_l)
    return (used_h * T32 + used_l) / n.per_us
  end

  -- The rest, which most calls do not need.
  local function complete()
    -- `units` in ticks.
    local function ticks(n, units)
      local b = big()
      return b.pair(b.times(b.of(units), b.of_pair(n.unit_h, n.unit_l)))
    end

    function m.used(n, a, b, c)
      local used_h, used_l = minus(a, b, n.now_h, n.now_l)
      if used_h == 0 and used_l == 0 then return 0 end
      local wide = big()
      return wide.about(wide.over(wide.of_pair(used_h, used_l), wide.of_pair(n.unit_h, n.unit_l)))
    end

    function m.charge(n, a, b, c, op)
      local next_h, next_l = larger(a, b, n.now_h, n.now_l)
      next_h, next_l = plus(next_h, next_l, op.ticks_h, op.ticks_l)
      local most_h, most_l = plus(n.now_h, n.now_l, n.deep_h, n.deep_l)
      if at_most(next_h, next_l, most_h, most_l) then
        return next_h, next_l, max(c, now), op.units, op.ticks_h, op.ticks_l
      end
      -- Never below what is booked already, which after a step back may lie beyond the bound.
      next_h, next_l = larger(most_h, most_l, a, b)
      local booked = min(op.units, max(0, m.used(n, next_h, next_l, 0) - m.used(n, a, b, c)))
      local booked_h, booked_l = ticks(n, booked)
      return next_h, next_l, max(c, now), booked, booked_h, booked_l
    end

    function m.refund(n, a, b, c, units, op)
      local drained_h, drained_l = smaller(a, b, n.now_h, n.now_l)
      local back_h, back_l
      if op then back_h, back_l = op.ticks_h, op.ticks_l else back_h, back_l = ticks(n, units) end
      local next_h, next_l = minus(a, b, back_h, back_l)
      next_h, next_l = larger(next_h, next_l, drained_h, drained_l)
      return next_h, next_l, c
    end

    function m.undo(n, a, b, c, made)
      if a == made.after_a and b == made.after_b then return made.before_a, made.before_b, c end
      local moved_h, moved_l = minus(made.after_a, made.after_b, made.before_a, made.before_b)
      moved_h, moved_l = smaller(moved_h, moved_l, made.ticks_h, made.ticks_l)
      local top_h, top_l = minus(a, b, made.after_a, made.after_b)
      top_h, top_l = plus(n.now_h, n.now_l, top_h, top_l)
      local next_h, next_l = minus(a, b, moved_h, moved_l)
      next_h, next_l = larger(next_h, next_l, top_h, top_l)
      next_h, next_l = smaller(next_h, next_l, a, b)
      return next_h, next_l, c
    end

    function m.carry(n, a, b, c, from)
      if n.scale == from.scale then
        local most_h, most_l = plus(n.now_h, n.now_l, n.deep_h, n.deep_l)
        local next_h, next_l = smaller(a, b, most_h, most_l)
        return next_h, next_l, c
      end
      local used_h, used_l = minus(a, b, from.now_h, from.now_l)
      if used_h == 0 and used_l == 0 then return 0, 0, c end
      local wide = big()
      local product = wide.times(wide.of_pair(used_h, used_l), wide.of_pair(n.unit_h, n.unit_l))
      used_h, used_l = wide.pair(wide.over(product, wide.of_pair(from.unit_h, from.unit_l)))
      used_h, used_l = smaller(used_h, used_l, n.deep_h, n.deep_l)
      used_h, used_l = plus(n.now_h, n.now_l, used_h, used_l)
      return used_h, used_l, c
    end

    -- The clock of a bucket as a ratio: so many ticks in so many nanoseconds.
    local function clock(n)
      local wide = big()
      local units_h, units_l, per_h, per_l = read('>I4I4I4I4', n.spec, 2)
      return wide.times(wide.of_pair(units_h, units_l), wide.of_pair(n.unit_h, n.unit_l)), wide.of_pair(per_h, per_l)
    end

    function m.keep_instant(n, a, b, c, from)
      local wide = big()
      local ticks, per = clock(n)
      local from_ticks, from_per = clock(from)
      if wide.compare(wide.times(ticks, from_per), wide.times(from_ticks, per)) == 0 then return a, b, c end
      if at_most(a, b, from.now_h, from.now_l) then return 0, 0, c end
      local level = wide.of_pair(a, b)
      if n.whole > 0 or from.whole > 0 then
        level = wide.over(wide.times(level, wide.times(ticks, from_per)), wide.times(from_ticks, per))
      else
        -- By way of the nanosecond, and a tick more.
        level = wide.over(wide.times(level, from_per), from_ticks)
        level = wide.over(wide.plus(wide.times(level, ticks), { 1 }), per)
      end
      local next_h, next_l = wide.pair(level)
      return next_h, next_l, c
    end

    function m.undo_instant(n, a, b, c, made, was)
      local before_a, before_b = m.keep_instant(n, made.before_a, made.before_b, 0, was)
      local after_a, after_b = m.keep_instant(n, made.after_a, made.after_b, 0, was)
      -- The charge moved the instant from one to the other, whatever a unit is by now.
      local moved = {
        before_a = before_a, before_b = before_b, after_a = after_a, after_b = after_b, ticks_h = T32 - 1,
        ticks_l = T32 - 1,
      }
      return m.undo(n, a, b, c, moved)
    end
  end

  return setmetatable(m, {
    __index = function(_, name)
      complete()
      return rawget(m, name)
    end,
  })
end
