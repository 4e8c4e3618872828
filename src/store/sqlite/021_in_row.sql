-- How many attempts failed since an endpoint's latest delivery.  (Views are made anew with every version.)
ALTER TABLE postrider_endpoint ADD COLUMN failed_in_row INTEGER NOT NULL DEFAULT 0;
