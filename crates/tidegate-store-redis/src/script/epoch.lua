-- The marker of the epoch: `<id>.<number>.<began>.<flag>`. The id says which life of the store it is, and a loss is told by it alone.
-- The number is that of the epoch that ledgers count in; the flag is 1 where something may have been lost at its beginning. A
-- marker that is only an id is of a time without epochs: its number is 1, and it began in 1970.
local EPOCH = '^([^.]*)%.(%d+)%.(%d+)%.([01])$'

-- The marker that counts in this call.
local marker = call('GET', KEYS[1])
if marker ~= ARGV[2] or acknowledges == 1 then
  local function read_marker(bytes)
    local id, number, _, flag = string.match(bytes, EPOCH)
    if id then return id, tonumber(number), flag == '1' end
    return bytes, 1, false
  end
  local function begin_epoch(id, number, flag)
    marker = id .. string.format('.%.0f.%.0f.', min(number, T32 - 1), now) .. flag
    call('SET', KEYS[1], marker)
  end

  local seen, found, number_now = ARGV[2], marker, max(1, floor(now / 1000000))
  local id, number, is_after_loss = (read_marker(ARGV[3])), 0, false
  if seen == '' then
    if not found and id ~= ARGV[3] then
      -- As old as the rest of the cluster.
      marker = ARGV[3]
      call('SET', KEYS[1], marker)
    elseif not found then
      begin_epoch(id, number_now, 0)
    end
  else
    local seen_id, seen_number = read_marker(seen)
    if found then id, number, is_after_loss = read_marker(found) end
    if id ~= seen_id then
      -- What this member has counted is gone: it says so, and nothing is decided yet. Whoever wrote another marker may have
      -- taken the store for new, or have known earlier epochs only.
      if not is_after_loss or number <= seen_number then
        begin_epoch(id, max(number, seen_number, number_now) + 1, 1)
      end
      return { LOST, now, found or '', marker }
    elseif number < seen_number then
      -- A failover has brought an earlier one back, and holders do not listen to an epoch that has passed.
      marker = seen
      call('SET', KEYS[1], seen)
    elseif acknowledges == 1 and found == seen and is_after_loss then
      -- Only what this member has seen is acknowledged.
      begin_epoch(id, number + 1, 0)
    end
  end
end
