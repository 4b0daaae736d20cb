-- Permits: a hash from holder to when its permit expires and which batch took it, and a sorted set
-- of the expiries. Those that have expired stay until the next permit is taken, as nothing.
--
-- A view is what is kept below, and over it the holders this call has changed: `over[holder]` is {
-- expires, by }, or false where the permit was given back.
algorithms[CONCURRENCY] = function()
  local m = {}

  function m.numbers(spec, at)
    local n = {}
    n.limit, n.window = read('>dd', spec, at)
    return n
  end

  function m.view(record, op)
    local v = { set = KEYS[op.aux1], hash = KEYS[op.aux2], over = {}, changed = 0, held = 0, all = 0, expired = 0 }
    v.forget, v.top, v.passed = false, {}, 0
    v.left_over = not record.raw
    if record.raw then
      v.all = call('ZCARD', v.set)
      v.expired = call('ZCOUNT', v.set, '-inf', now)
      -- Raises an error where the key is not a hash, which writing to it must not.
      call('HLEN', v.hash)
      v.held = v.all - v.expired
    end
    return v
  end

  function m.snapshot(v)
    local over = {}
    for holder, permit in pairs(v.over) do over[holder] = permit end
    return { over, v.changed, v.held, v.all, v.forget }
  end

  function m.restore(v, saved)
    v.over, v.changed, v.held, v.all, v.forget = saved[1], saved[2], saved[3], saved[4], saved[5]
    v.passed, v.last, v.wait = 0, nil, nil
  end

  function m.is_empty(v) return v.all == 0 end

  local function permit_of(v, holder)
    local over = v.over[holder]
    if over ~= nil then return over end
    local bytes = not v.left_over and call('HGET', v.hash, holder)
    if not bytes then return false end
    local expires, by = read('>dc16', bytes)
    if v.forget and expires <= now then return false end
    return { expires, by }
  end

  local function put(v, holder, permit)
    local was = v.over[holder]
    if was == nil then v.changed = v.changed + 1 end
    v.over[holder] = permit
    -- The last expiry of those changed is known as long as it only moves on.
    if permit and v.last and permit[1] >= v.last then
      v.last = permit[1]
    elseif was and was[1] == v.last then
      v.last = nil
    end
    v.wait = nil
  end

  -- The last expiry of what this call has not changed, or 0. Changes only add up, so a search goes
  -- on where one ended.
  local function last_below(v)
    while not v.left_over do
      local at = v.passed * 2 + 1
      if at > #v.top then
        local more = call('ZREVRANGE', v.set, v.passed, v.passed + 15, 'WITHSCORES')
        if #more == 0 then break end
        for _, part in ipairs(more) do v.top[#v.top + 1] = part end
      end
      if v.over[v.top[at]] == nil then return tonumber(v.top[at + 1]) end
      v.passed = v.passed + 1
    end
    return 0
  end

  function m.usage(n, v)
    if v.all == 0 then return 0, now end
    if not v.last then
      v.last = 0
      for _, permit in pairs(v.over) do
        if permit then v.last = max(v.last, permit[1]) end
      end
    end
    return v.held, max(now, v.last, last_below(v))
  end

  -- Whether one more is admitted now; if not, when.
  function m.decide(n, v)
    if n.limit == 0 then return false, 0 end
    local excess = v.held - n.limit
    if excess < 0 then return true end
    if v.wait and v.wait[1] == excess then return false, v.wait[2] end
    -- When one more than the excess has expired, one is free.
    local expiries = {}
    if not v.left_over then
      local below = call('ZRANGE', v.set, v.expired, v.expired + excess + v.changed, 'WITHSCORES')
      for at = 1, #below, 2 do
        if v.over[below[at]] == nil then expiries[#expiries + 1] = tonumber(below[at + 1]) end
      end
    end
    for _, permit in pairs(v.over) do
      if permit and permit[1] > now then expiries[#expiries + 1] = permit[1] end
    end
    table.sort(expiries)
    v.wait = { excess, expiries[excess + 1] or T53 }
    return false, v.wait[2]
  end

  -- Takes a permit if one is free, or renews the one the holder has: whether, when not, and how
  -- many were taken.
  function m.acquire(n, v, holder, by)
    local permit = permit_of(v, holder)
    local renews = permit and permit[1] > now
    if not v.forget then
      -- The remaining permits have not expired.
      v.forget, v.all = true, v.held
    end
    local expires = now + n.window
    -- A permit never ends earlier for being renewed.
    if renews then
      put(v, holder, { max(permit[1], expires), permit[2] })
      return 0
    end
    put(v, holder, { expires, by })
    v.held, v.all = v.held + 1, v.all + 1
    return 1
  end

  function m.holds(v, holder)
    local permit = permit_of(v, holder)
    return permit and permit[1] > now
  end

  -- Gives a permit back; with `by` only if that batch took it. How many.
  function m.release(v, holder, by)
    local permit = permit_of(v, holder)
    if not permit or (by and permit[2] ~= by) then return 0 end
    put(v, holder, false)
    v.all = v.all - 1
    if permit[1] <= now then return 0 end
    v.held = v.held - 1
    return 1
  end

  -- Lets permits taken more than a hold ahead end a hold from now. Whether there were any. A permit
  -- keeps its hold, which may have been longer: `taken`, the latest instant at which one was taken
  -- (0 where it is not known), tells that from a clock that was ahead.
  function m.bring_back(n, v, taken)
    local explained, ahead = now + 2 * n.window, {}
    if taken ~= 0 and taken <= now + n.window then return false end
    local _, last = m.usage(n, v)
    if last <= explained then return false end
    if not v.left_over then
      for _, holder in ipairs(call('ZRANGEBYSCORE', v.set, '(' .. string.format('%.0f', explained), '+inf')) do
        if v.over[holder] == nil then ahead[#ahead + 1] = holder end
      end
    end
    for holder, permit in pairs(v.over) do
      if permit and permit[1] > explained then ahead[#ahead + 1] = holder end
    end
    for _, holder in ipairs(ahead) do
      local permit = permit_of(v, holder)
      put(v, holder, permit and { now + n.window, permit[2] })
    end
    return #ahead > 0
  end

  function m.drains(n, v)
    local _, last = m.usage(n, v)
    return last - now
  end

  function m.save(v)
    if v.left_over then
      call('DEL', v.set, v.hash)
    elseif v.forget and v.expired > 0 then
      local gone = call('ZRANGEBYSCORE', v.set, '-inf', now)
      for from = 1, #gone, 1000 do call('HDEL', v.hash, unpack(gone, from, min(from + 999, #gone))) end
      call('ZREMRANGEBYSCORE', v.set, '-inf', now)
    end
    for holder, permit in pairs(v.over) do
      if permit then
        call('ZADD', v.set, string.format('%.0f', permit[1]), holder)
        call('HSET', v.hash, holder, pack('>dc16', permit[1], permit[2]))
      else
        call('ZREM', v.set, holder)
        call('HDEL', v.hash, holder)
      end
    end
  end

  function m.discard(v) call('DEL', v.set, v.hash) end

  function m.expire(v, ms)
    call('PEXPIRE', v.set, ms)
    call('PEXPIRE', v.hash, ms)
  end

  return m
end
