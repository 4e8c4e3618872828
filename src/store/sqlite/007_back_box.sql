-- What is not fresh, in the order of rows: listings of what failed, is held, delayed or parked need not look at
-- millions of fresh ones.  Senders of fresh rows pay nothing for it.
CREATE INDEX "postrider_{box}_back" ON "{box}" (row_id) WHERE due_at IS NOT NULL OR held_by IS NOT NULL;
