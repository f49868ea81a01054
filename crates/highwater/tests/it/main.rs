//! Tests of the whole, against real servers and the real binary. One binary, because each further one links everything.

mod s3;
