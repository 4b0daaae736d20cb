-- GCRA over one key on the server's clock, in microseconds, as people write it by hand: what
-- Tidegate is measured beside. KEYS[1] is the key, ARGV[1] the burst, ARGV[2] the microseconds that
-- a unit takes to come back; 1 if it is admitted.
local tat = tonumber(redis.call('GET', KEYS[1]) or '0')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = tonumber(ARGV[2])
if tat < now then tat = now end
local next = tat + interval
if next - now > interval * tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000) + 1)
return 1
