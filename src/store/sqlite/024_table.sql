-- The table of a box, when it is not the one of its name (boxes.NAME.table); NULL: it is.  It never changes.
ALTER TABLE postrider_box ADD COLUMN table_name TEXT;
