-- Notes of one kind: a hash from name to until when it lasts and what it says, and a sorted set of
-- when they end.

local notes_made
local function notes()
  if notes_made then return notes_made end
  local m = {}
  -- How many that have ended one batch forgets, so that none takes long.
  local FORGET_MAX = 64
  local CREATE, REMOVE = 2, 3
  -- The end of the key of refunds, `NoteKind::Refund`, and how long one is remembered: an hour.
  local REFUND = byte('3')
  local REFUND_KEPT = 3600000000

  function m.read(bytes, at, count)
    local changes = {}
    for index = 1, count do
      local change = {}
      local hash, set
      change.what, hash, set, change.name, at = read('>BI2I2I2c0', bytes, at)
      change.place, change.hash, change.set = hash, KEYS[hash], KEYS[set]
      if change.what ~= REMOVE then
        local exact, value
        change.until_us, exact, value, at = read('>dc8I4c0', bytes, at)
        change.value = pack('>d', change.until_us) .. exact .. value
      end
      changes[index] = change
    end
    return changes
  end

  -- The changes of notes that this call has not written yet, in order; and by set and name, the
  -- value or false.
  local unwritten, over = {}, {}

  -- The stored value of a note, or false. The first look at a note raises an error where the key is
  -- not a hash or a set.
  function m.look(change)
    local of = over[change.set]
    if not of then
      call('ZCARD', change.set)
      of = {}
      over[change.set] = of
    end
    local known = of[change.name]
    if known == nil then
      known = call('HGET', change.hash, change.name)
      -- The instant, in both ways it is written, and the value.
      if known and #known < 16 then error('the note is too short') end
      of[change.name] = known
    end
    return known
  end

  -- Whether a note that is to be created is there already.
  function m.refuse(changes, may_write)
    local refused = false
    for _, change in ipairs(changes) do
      local known = m.look(change)
      if change.what == CREATE and known and read('>d', known) > now then
        refused = true
        -- No refund is remembered longer than an hour: the clock was ahead.
        local is_refund = may_write and byte(change.hash, -1) == REFUND and change.until_us > now
        if is_refund and read('>d', known) > max(change.until_us, now + REFUND_KEPT) then m.shorten(change, known) end
      end
    end
    return refused
  end

  -- Shortens the existing note to the end of the refused one.
  function m.shorten(change, known)
    local value = string.sub(change.value, 1, 16) .. string.sub(known, 17)
    over[change.set][change.name] = value
    unwritten[#unwritten + 1] = {
      lasts = true, hash = change.hash, set = change.set, name = change.name, value = value, until_us = change.until_us,
    }
  end

  -- Makes all changes in order. Returns the former values, for a member that has to take the
  -- changes back.
  function m.change(changes)
    local before = {}
    for index, change in ipairs(changes) do
      local known = m.look(change)
      if known and read('>d', known) <= now then known = false end
      before[index] = known and pack('>BI4c0', 1, #known, known) or pack('B', 0)
      change.lasts = change.what ~= REMOVE and change.until_us > now
      over[change.set][change.name] = change.lasts and change.value
      unwritten[#unwritten + 1] = change
    end
    return table.concat(before)
  end

  -- Forgets what this call has decided.
  function m.reset() unwritten, over = {}, {} end

  function m.save_all()
    for _, change in ipairs(unwritten) do
      if change.lasts then
        call('HSET', change.hash, change.name, change.value)
        if change.until_us < T53 - 1 then
          call('ZADD', change.set, change.until_us, change.name)
        else
          call('ZREM', change.set, change.name)
        end
      else
        call('HDEL', change.hash, change.name)
        call('ZREM', change.set, change.name)
      end
      local ended = call('ZRANGEBYSCORE', change.set, '-inf', now, 'LIMIT', 0, FORGET_MAX)
      if #ended > 0 then
        call('HDEL', change.hash, unpack(ended))
        call('ZREM', change.set, unpack(ended))
      end
    end
  end

  notes_made = m
  return m
end
