-- name: lanes
SELECT {lane} FROM lane ORDER BY name

-- name: lane
SELECT {lane} FROM lane WHERE name = :lane

-- name: lane_lock
SELECT {lane} FROM lane WHERE name = :lane {lock}

-- name: lane_save
UPDATE lane SET ({lane}) = ({n.lane}) FROM {rows lane} WHERE lane.name = n.name

-- name: lane_hold
INSERT INTO lane (name, held, held_by) VALUES (:lane, CAST(:held AS smallint), :by)
ON CONFLICT (name) DO UPDATE SET held = excluded.held, held_by = excluded.held_by

-- name: reserve
-- GCRA: next_at is when the next call would be due were all evenly spaced. A
-- burst may run ahead of it.
INSERT INTO lane_rate (lane, bucket, next_at) VALUES (:lane, :bucket, CAST(:now AS bigint) + CAST(:span AS bigint))
ON CONFLICT (lane, bucket) DO UPDATE SET
    next_at = {greatest}(lane_rate.next_at, CAST(:now AS bigint)) + CAST(:span AS bigint)
RETURNING next_at

-- name: alert_open
INSERT INTO alert (alert_key, opened_at, closed_at, message) VALUES (:key, :at, 0, :message)
ON CONFLICT (alert_key) DO UPDATE SET opened_at = excluded.opened_at, closed_at = 0, message = excluded.message
 WHERE alert.closed_at <> 0
RETURNING opened_at

-- name: alert_close
UPDATE alert SET closed_at = :at WHERE alert_key = :key AND closed_at = 0
