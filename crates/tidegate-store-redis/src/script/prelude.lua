-- One call carries out many batches, one after the other, at one instant. Nothing is written before
-- every batch is decided, and nothing of a batch that is refused. A key that this script cannot
-- read fails the batches that name it and no other: reading may raise an error, and every batch is
-- run so that its error is its own.
--
-- Numbers. Lua counts in doubles, which are exact below 2^53. Instants are whole microseconds since
-- 1970, as the server's clock tells them. The state of a bucket is larger: it is a pair of a high
-- and a low half of 32 bits.
--
-- Arguments. KEYS[1] is the marker of the epoch; the other keys are named by their index. ARGV[1]
-- is the header, ARGV[2] the marker this member has seen (empty: none yet), ARGV[3] the one to
-- write where the key has no marker, or its id; then follow the numbers of limits, the windows of
-- calendars, and the batches.
--
-- The answer is { status, now, marker, one string a batch }.
--
-- The numbers of the call format stand above: `call_format.rs` generates them.
local T32, T53 = 4294967296, 9007199254740992
local floor, ceil, max, min, fmod = math.floor, math.ceil, math.max, math.min, math.fmod
local pack, read, call, byte, concat = struct.pack, struct.unpack, redis.call, string.byte, table.concat

local BUCKET, FIXED, CALENDAR, SLIDING, ROLLING, CONCURRENCY = 1, 2, 3, 4, 5, 6
-- The layout of what is kept, and of a counter whose key is blocked: for how long it was set stands
-- behind the end of the block. Another one is never written over.
local LAYOUT, BLOCKED_LAYOUT = 1, 2

-- Losses up to `acknowledged_until` are acknowledged; `acknowledges` is 1 if the marker is to say
-- so, `remembers` if it is the marker that all members read that from, `refuses_loss` if nothing is
-- decided while a loss is not acknowledged. The number, the beginning and the flag of the marker
-- seen are told apart, so that most calls need not read it.
local call_format, given, kept_ms, spec_count, window_count, seen_number, seen_began, seen_flag, protocol, acknowledged_until,
  acknowledges, remembers, refuses_loss = read('>BddI2I2I4dBI4dBBB', ARGV[1])
if call_format ~= CALL_FORMAT then
  error('call format ' .. call_format .. ' is not ' .. CALL_FORMAT .. ', which this script reads')
end
local now = given
if given == 0 then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Numbers that need more than a pair are lists of digits in base 2^24, the lowest first. They are
-- slow, and needed only where numbers have changed, a debt ends at its bound, or counts and windows
-- are huge. Made when first asked for.
local big_numbers
local function big()
  if big_numbers then return big_numbers end
  local BASE, b = 16777216, {}

  function b.of(number)
    local digits, at = {}, 0
    repeat
      at = at + 1
      digits[at] = fmod(number, BASE)
      number = (number - digits[at]) / BASE
    until number == 0
    return digits
  end

  function b.of_pair(high, low)
    return { low % BASE, floor(low / BASE) + (high % 65536) * 256, floor(high / 65536) }
  end

  -- A number as a double, off by less than one part in 2^50.
  function b.about(digits)
    local sum = 0
    for at = #digits, 1, -1 do sum = sum * BASE + digits[at] end
    return sum
  end

  -- Saturates at 2^64 - 1.
  function b.pair(digits)
    for at = 4, #digits do
      if digits[at] > 0 then return T32 - 1, T32 - 1 end
    end
    local middle, top = digits[2] or 0, digits[3] or 0
    if top >= 65536 then return T32 - 1, T32 - 1 end
    return top * 65536 + floor(middle / 256), (middle % 256) * BASE + (digits[1] or 0)
  end

  function b.compare(left, right)
    for at = max(#left, #right), 1, -1 do
      local difference = (left[at] or 0) - (right[at] or 0)
      if difference ~= 0 then return difference end
    end
    return 0
  end

  function b.times(left, right)
    local product = {}
    for at = 1, #left + #right do product[at] = 0 end
    for i = 1, #left do
      local carry = 0
      for j = 1, #right do
        local sum = product[i + j - 1] + left[i] * right[j] + carry
        carry = floor(sum / BASE)
        product[i + j - 1] = sum - carry * BASE
      end
      product[i + #right] = product[i + #right] + carry
    end
    return product
  end

  function b.plus(left, right)
    local sum, carry = {}, 0
    for at = 1, max(#left, #right) + 1 do
      local digit = (left[at] or 0) + (right[at] or 0) + carry
      carry = floor(digit / BASE)
      sum[at] = digit - carry * BASE
    end
    return sum
  end

  -- `right` is not the larger one.
  function b.minus(left, right)
    local difference, borrow = {}, 0
    for at = 1, #left do
      local digit = left[at] - (right[at] or 0) - borrow
      borrow = digit < 0 and 1 or 0
      difference[at] = digit + borrow * BASE
    end
    return difference
  end

  -- Rounded up. Each turn takes away what a double tells for certain, which is all but one part in
  -- 2^40.
  function b.over(left, right)
    local quotient, divisor = { 0 }, b.about(right)
    while b.compare(left, right) >= 0 do
      local part = b.of(max(1, floor(b.about(left) / divisor * (1 - 2 ^ -40))))
      left = b.minus(left, b.times(part, right))
      quotient = b.plus(quotient, part)
    end
    if b.about(left) > 0 then quotient = b.plus(quotient, { 1 }) end
    return quotient
  end

  big_numbers = b
  return b
end

-- The functions of each algorithm, made when a call first needs them: there is no way to keep
-- functions between calls, and making them all would cost more than most decisions. `numbers` of a
-- limit are read once a call.
--
-- Algorithms whose state is at most three numbers have
--
--     numbers(spec, at)       the limit, read from its bytes
--     admits(n, a, b, c, op)  whether there is room, and the state afterwards
--     charge(n, a, b, c, op)  the state after work already done, with the units booked
--     refund(n, a, b, c, units, op)  `op` where an operation says the units
--     undo(n, a, b, c, made)  the state without one earlier charge
--     used(n, a, b, c)        units
--     carry(n, a, b, c, from) the state under these numbers of units counted under others
--     keep_instant(n, a, b, c, from), undo_instant(n, a, b, c, made, was)
--                             for buckets: carry and undo for an operation that keeps the instant
--     brought_back(n, a, b, c, of)
--                             the state if it lies no further ahead than the limit could have written
--                             by now, and otherwise brought back; `of` are the numbers of the
--                             operation that looks at it
--     drains(n, a, b, c)      in how many microseconds it will have drained, about
--
-- Each is what the function of that name in `tidegate::algorithm::Counter` is.
local algorithms = {}
--
-- Those that keep more have a view instead: the stored parts, with the changes of this call that
-- are not written yet.
--   view(record, op), save(view)
--   usage(n, v)             units used, and when none will be
--   snapshot(v), restore(v, saved)

-- The window of each calendar that holds now: its number, its end and its begin, and the number and
-- the end of the next one.
local windows = {}
