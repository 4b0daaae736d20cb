-- The marker of the epoch: `<id>.<number>.<began>.<flag>`. The id says which life of the store it is, and a loss is told by it alone.
-- The number is that of the epoch that ledgers count in; the flag is 1 where something may have been lost at its beginning. A
-- marker that is only an id is of a time without epochs: its number is 1, and it began in 1970.

-- The marker that counts in this call.
local marker

local function read_marker(bytes)
  local id, number, began, flag = string.match(bytes, '^([^.]*)%.(%d+)%.(%d+)%.([01])$')
  if id then return id, tonumber(number), tonumber(began), flag == '1' end
  return bytes, 1, 0, false
end

-- Sees to the marker where it is not the one this member has seen, or where a loss is acknowledged. Whether this member has
-- counted something that is gone.
local function meet_marker(found)
  local seen = ARGV[2]
  local function begin_epoch(id, number, flag)
    marker = id .. string.format('.%.0f.%.0f.', min(number, T32 - 1), now) .. flag
    call('SET', KEYS[1], marker)
  end
  marker = found
  local number_now = max(1, floor(now / 1000000))
  if seen == '' then
    if not found then
      local id = read_marker(ARGV[3])
      if id ~= ARGV[3] then
        -- As old as the rest of the cluster.
        marker = ARGV[3]
        call('SET', KEYS[1], marker)
      else
        begin_epoch(id, number_now, 0)
      end
    end
    return false
  end
  local seen_id, seen_number = read_marker(seen)
  local id, number, is_after_loss = (read_marker(ARGV[3])), 0, false
  if found then
    local _
    id, number, _, is_after_loss = read_marker(found)
    if id == seen_id then
      if number < seen_number then
        -- A failover has brought an earlier one back, and holders do not listen to an epoch that has passed.
        marker = seen
        call('SET', KEYS[1], seen)
      elseif acknowledges == 1 and found == seen and is_after_loss then
        -- Only what this member has seen is acknowledged.
        begin_epoch(id, number + 1, 0)
      end
      return false
    end
  end
  -- Whoever wrote it may have taken the store for new, or have known earlier epochs only.
  if not is_after_loss or number <= seen_number then begin_epoch(id, max(number, seen_number, number_now) + 1, 1) end
  return true
end
