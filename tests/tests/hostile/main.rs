//! No process is harmed: not the target where the machine, the disk, another process or we ourselves fail at any
//! step, and not we where the target is an enemy.

mod faults;
mod files;
mod frozen_disk;
mod full_disk;
mod guard_rails;
mod hanging_disk;
mod interrupted_early;
mod kill_soak;
mod kills;
mod neighbours;
mod python;
mod scripts;
mod slow_reader;
mod stacks;
mod target;
mod target_end;
