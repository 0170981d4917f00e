//! What an agent would do now.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use heapattach_agent::{Action, Config, Decision, Looked, decide, scheduled};
use heapattach_text::{
    printable::printable,
    quantity::{bytes, clock},
};
use serde_json::{Value, json};

use super::{look::look, saved};
use crate::{exit_status::Exit, output::print};

/// Says it.
pub fn run(config: &Config, is_json: bool) -> Result<Exit, String> {
    let seen = look(config);
    let state = saved::read(&config.state)?;
    let watched = HashSet::new();
    let all = decide(
        config,
        &state,
        &seen.machine,
        &seen.processes,
        &watched,
        &HashMap::new(),
        &mut BTreeMap::new(),
    );
    let (looked, now) = (&state.looked, seen.machine.now);
    let others = seen.processes.len() - all.len();
    let text = match is_json {
        true => {
            let processes: Vec<_> = all.iter().map(|one| data(one, looked, now)).collect();
            let all = json!({
                "schema": "heapattach/agent/1", "processes": processes, "others": others,
            });
            serde_json::to_string_pretty(&all).unwrap_or_default()
        }
        false => {
            let lines = all.iter().map(|one| line(one, looked, now) + "\n");
            format!(
                "{}{others} processes fit no rule; nothing was touched",
                lines.collect::<String>()
            )
        }
    };
    Ok(print(&text, Exit::Done))
}

fn line(one: &Decision<'_>, looked: &[Looked], now: u64) -> String {
    let rule = one.rule;
    let what = match &one.action {
        Action::Watch => {
            format!("would be watched: {}, every {}", rule.mode.name(), bytes(rule.every))
        }
        Action::Wait => "would wait: another one has the slot".to_owned(),
        Action::Refuse(why) => format!("not watched ({}): {}", why.name(), why.told()),
    };
    let name = printable(&one.process.name);
    let looks = scheduled(one, looked, now).into_iter().map(|look| {
        let next = match look.left {
            0 => "due".to_owned(),
            left => format!("next in {}", clock(Duration::from_secs(left))),
        };
        format!("; {} every {} ({next})", look.look.name(), clock(look.every))
    });
    let looks: String = looks.collect();
    format!("{} {name}, rule {}: {what}{looks}", one.process.key.pid, rule.name)
}

fn data(one: &Decision<'_>, looked: &[Looked], now: u64) -> Value {
    let mut data = json!({
        "pid": one.process.key.pid,
        "name": one.process.name,
        "executable": one.process.executable,
        "rule": one.rule.name,
        "mode": one.rule.mode.name(),
        "every": one.rule.every,
        "action": match one.action {
            Action::Watch => "watch",
            Action::Wait => "wait",
            Action::Refuse(_) => "refuse",
        },
    });
    let looks: Vec<_> = scheduled(one, looked, now)
        .into_iter()
        .map(|look| {
            json!({ "look": look.look.name(), "every_s": look.every.as_secs_f64(), "due_in_s": look.left })
        })
        .collect();
    if !looks.is_empty() {
        data["looks"] = looks.into();
    }
    if let Action::Refuse(why) = &one.action {
        data["reason"] = why.name().into();
        data["told"] = why.told().into();
    }
    data
}
