//! Plain sorted sets: the daemon is the built binary, Redis a real server, the producers are what people write by hand.

mod forwarding;
