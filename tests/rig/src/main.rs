//! `cargo rig …`: the rig's front door for people.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use klamm_rig::capture::{RECORDINGS, Recording};
use klamm_rig::cluster::{Cluster, ClusterPlan};
use klamm_rig::fuzz::meter::CountingAllocator;
use klamm_rig::fuzz::{self, Until};
use klamm_rig::jars::{self, Jars};
use klamm_rig::log_rule;
use klamm_rig::script;
use klamm_rig::stories::hostile::{self, HOSTILE, Scale};
use klamm_rig::stories::matrix::MATRIX;
use klamm_rig::stories::{CLIENTS, Choice, DEMO, Leading, Report, STORIES, Story, up};
use klamm_rig::teller::{self, Voice};
use klamm_rig::tools;
use klamm_rig::tools::suite::{self, Plan};
use klamm_rig::version::{Ibp, KafkaVersion};

/// How often `up` looks whether a process ended by itself.
const LOOK_PACE: Duration = Duration::from_millis(200);

/// Of everything that the rig does only fuzzing looks at what it counts.
#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Genuine ZooKeeper and Kafka processes, klamm beside them, and the stories told with them.
#[derive(Debug, Parser)]
#[command(
    name = "cargo rig",
    bin_name = "cargo rig",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell the whole story live on one cluster: takeover, death and return of a broker, klamm's own death, hand-back
    Demo(Who),
    /// Keep a cluster with klamm running to play with; Ctrl-C ends all
    Up(Who),
    /// List the stories
    Stories,
    /// Tell stories by name, or all of them
    Story {
        /// Names, as `cargo rig stories` lists them
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All of them, the slow ones too
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// On each of the four clusters that every story must pass on
        #[arg(long, conflicts_with_all = ["brokers", "ibp"])]
        matrix: bool,
        /// Print each step as it happens
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        who: Who,
    },
    /// Tell stories under the brokers' own controller, and print what brokers log there at ERROR and above
    Baseline {
        /// Names; without any, all that make sense without klamm
        names: Vec<String>,
        #[command(flatten)]
        who: Who,
    },
    /// Let the clients of every ecosystem work with klamm's node, and hold them against the same under the Java controller
    Clients(Who),
    /// Play one script under the Java controller and under klamm, and compare all that can be seen
    Parity(Who),
    /// Run the genuine command line tools of four releases under the Java controller and under klamm, and compare what they say
    Tools {
        /// Releases of the tools; without any, all four
        #[arg(long = "version", value_delimiter = ',', value_name = "V")]
        versions: Vec<KafkaVersion>,
        /// Cases by name; without any, all of them
        #[arg(long = "case", num_args = 1.., value_name = "NAME")]
        cases: Vec<String>,
        #[command(flatten)]
        who: Who,
    },
    /// Record the Java controller: make the captures in fixtures/wire again
    Capture {
        /// Names, without the ending; without any, all of them
        names: Vec<String>,
        /// Write nothing: record again, and tell in what this differs from the captures but times, ports and ids
        #[arg(long)]
        check: bool,
    },
    /// Tell the story of the hostile clients: damaged requests, half ones, huge lengths, idle connections, slow readers
    Hostile {
        /// How many damaged requests
        #[arg(long, default_value_t = Scale::default().frames)]
        frames: usize,
        /// What follows from it does so again
        #[arg(long, default_value_t = Scale::default().seed)]
        seed: u64,
        #[command(flatten)]
        who: Who,
    },
    /// Fuzz klamm's codec of what brokers and their controller say to each other
    Fuzz {
        /// How long
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// What follows from it does so again
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Fetch the jars of Kafka releases, for working without a network later
    Jars {
        #[arg(default_values = ["1.1.1", "2.2.2", "2.4.1", "2.8.2", "3.4.1", "3.9.2"])]
        versions: Vec<KafkaVersion>,
    },
}

#[derive(Debug, Args)]
struct Who {
    /// Kafka releases, one broker each: 2.4.1,2.8.2,3.9.2
    #[arg(long, value_delimiter = ',', value_name = "V,V,V")]
    brokers: Option<Vec<KafkaVersion>>,
    /// inter.broker.protocol.version; without it, that of the oldest broker
    #[arg(long, value_name = "V")]
    ibp: Option<Ibp>,
}

impl Who {
    fn choice(self, leading: Leading) -> Choice {
        Choice {
            brokers: self.brokers,
            ibp: self.ibp,
            leading,
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{} {error:#}", teller::red("error:"));
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all is as it must be.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Stories => {
            list();
            Ok(true)
        }
        Command::Jars { versions } => {
            for version in versions {
                let jars = Jars::of(version)?;
                println!("{version}: {}", jars.directory().display());
            }
            Ok(true)
        }
        Command::Parity(who) => parity(who),
        Command::Tools {
            versions,
            cases,
            who,
        } => tools(versions, &cases, &who.choice(Leading::Klamm)),
        Command::Capture { names, check } => capture(&names, check),
        Command::Clients(who) => tell_live(&CLIENTS, &who.choice(Leading::Klamm)),
        Command::Demo(who) => tell_live(&DEMO, &who.choice(Leading::Klamm)),
        Command::Hostile { frames, seed, who } => {
            hostile::choose(Scale { frames, seed });
            tell_live(&HOSTILE, &who.choice(Leading::Klamm))
        }
        Command::Fuzz { seconds, seed } => {
            let figures = fuzz::run(seed, Until::Elapsed(Duration::from_secs(seconds)))?;
            for (message, understood) in &figures.understood {
                println!("{understood:>10} understood  {message}");
            }
            println!("seed {seed}: {figures}");
            Ok(true)
        }
        Command::Up(who) => keep_up(&who.choice(Leading::Klamm)),
        Command::Story {
            names,
            all,
            matrix,
            verbose,
            who,
        } => {
            let stories = if all {
                STORIES.iter().collect()
            } else {
                named(&names)?
            };
            let voice = if verbose { Voice::Live } else { Voice::Quiet };
            if matrix {
                let clusters = MATRIX.map(|cluster| (Some(cluster.name), cluster.choice()));
                tell(&stories, &clusters, voice)
            } else {
                tell(&stories, &[(None, who.choice(Leading::Klamm))], voice)
            }
        }
        Command::Baseline { names, who } => {
            let stories = if names.is_empty() {
                STORIES
                    .iter()
                    .chain([&DEMO])
                    .filter(|story| story.baseline)
                    .collect()
            } else {
                named(&names)?
            };
            baseline(&stories, &who.choice(Leading::Java))
        }
    }
}

fn named(names: &[String]) -> Result<Vec<&'static Story>> {
    names.iter().map(|name| Story::named(name)).collect()
}

fn list() {
    let widest = STORIES
        .iter()
        .map(|story| story.name.len())
        .max()
        .unwrap_or(0);
    for story in STORIES {
        let pace = if story.is_slow() {
            teller::dim(" (slow)")
        } else {
            String::new()
        };
        println!(
            "{:<widest$}  {}{pace}",
            teller::bold(story.name),
            story.about
        );
    }
}

/// Tells stories one after the other on each of the clusters, a line each.
fn tell(stories: &[&Story], clusters: &[(Option<&str>, Choice)], voice: Voice) -> Result<bool> {
    jars::require_java_tools()?;
    let (mut told, mut failed) = (0, 0);
    for (name, choice) in clusters {
        if let Some(name) = name {
            println!("{}", teller::bold(name));
        }
        for story in stories {
            if voice == Voice::Live {
                println!("{}: {}", teller::bold(story.name), story.about);
            }
            let report = story.run(choice, voice);
            told += 1;
            failed += usize::from(!report.passed());
            print_line(story, &report);
        }
    }
    println!("stories: {} passed, {failed} failed", told - failed);
    Ok(failed == 0)
}

fn print_line(story: &Story, report: &Report) {
    let word = if report.passed() {
        teller::green("ok  ")
    } else {
        teller::red("FAIL")
    };
    println!(
        "{word} {:>6.1} s  {}",
        report.took.as_secs_f64(),
        story.name
    );
    if !report.passed() {
        println!("{}", report.failure());
    }
}

/// Tells one story step by step, and counts its steps.
fn tell_live(story: &Story, choice: &Choice) -> Result<bool> {
    jars::require_java_tools()?;
    println!("{}: {}\n", teller::bold("klamm"), story.about);
    let report = story.run(choice, Voice::Live);
    println!("\n{}\n", teller::table(&report.steps));
    let failed = report
        .steps
        .iter()
        .filter(|step| step.outcome.is_err())
        .count();
    let passed = report.steps.len() - failed;
    if !report.passed() {
        let logs = report
            .logs
            .as_ref()
            .map_or("none".to_owned(), |logs| logs.display().to_string());
        println!("what was seen:\n{}\nlogs: {logs}", report.faults.join("\n"));
    }
    // A fault outside of any step counts as one more.
    let failed = failed.max(usize::from(!report.passed()));
    println!("{}: {passed} passed, {failed} failed", story.name);
    Ok(failed == 0)
}

fn baseline(stories: &[&Story], choice: &Choice) -> Result<bool> {
    jars::require_java_tools()?;
    let mut all_passed = true;
    for story in stories {
        if !story.baseline {
            bail!("the story `{}` makes no sense without klamm", story.name);
        }
        println!("{} under the Java controller", teller::bold(story.name));
        let report = story.run(choice, Voice::Live);
        all_passed &= report.passed();
        for (kind, times) in log_rule::kinds(&report.broker_entries) {
            println!("    {times:>5} × {kind}");
        }
    }
    Ok(all_passed)
}

/// One release named: all three brokers are of it.
fn three(brokers: Option<Vec<KafkaVersion>>) -> Option<Vec<KafkaVersion>> {
    brokers.map(|brokers| match brokers[..] {
        [version] => vec![version; script::BROKERS],
        _ => brokers,
    })
}

fn parity(who: Who) -> Result<bool> {
    jars::require_java_tools()?;
    klamm_rig::interrupt::arm();
    let brokers = three(who.brokers).unwrap_or_else(|| vec![KafkaVersion::V3_9_2; script::BROKERS]);
    let ibp = who.ibp.unwrap_or_else(|| Ibp::lowest_of(&brokers));
    let comparison = klamm_rig::parity::run(&brokers, ibp)?;
    println!("\n{}\n", comparison.report());
    let listed: usize = comparison.on_purpose.iter().map(|(_, times)| times).sum();
    println!(
        "parity: {} differences, {listed} more on purpose",
        comparison.unlisted.len()
    );
    Ok(comparison.passed())
}

fn tools(versions: Vec<KafkaVersion>, cases: &[String], choice: &Choice) -> Result<bool> {
    jars::require_java_tools()?;
    klamm_rig::interrupt::arm();
    let choice = Choice {
        brokers: three(choice.brokers.clone()),
        ..choice.clone()
    };
    let mut plan = Plan::on(&choice.mixed());
    if !versions.is_empty() {
        plan.tools = versions;
    }
    if !cases.is_empty() {
        plan.cases = tools::cases::named(cases)?;
    }
    println!(
        "{}",
        teller::dim("       java     klamm   release, way, tool, case")
    );
    let report = suite::run(&plan, |verdict| println!("{verdict}"))?;
    println!(
        "tools: {} passed, {} failed",
        report.passed(),
        report.failed()
    );
    Ok(report.failed() == 0)
}

fn capture(names: &[String], check: bool) -> Result<bool> {
    jars::require_java_tools()?;
    klamm_rig::interrupt::arm();
    let recordings: Vec<&Recording> = if names.is_empty() {
        RECORDINGS.iter().collect()
    } else {
        names
            .iter()
            .map(|name| Recording::named(name))
            .collect::<Result<_>>()?
    };
    let mut differences = 0;
    for recording in &recordings {
        if !check {
            recording.make()?;
            continue;
        }
        for difference in recording.differences()? {
            println!("{} {difference}", teller::red("DIFFERS"));
            differences += 1;
        }
    }
    let done = if check { "checked" } else { "made" };
    println!(
        "captures: {} {done}, {differences} differences",
        recordings.len()
    );
    Ok(differences == 0)
}

fn keep_up(choice: &Choice) -> Result<bool> {
    jars::require_java_tools()?;
    klamm_rig::interrupt::arm();
    let plan: ClusterPlan = up::plan(choice);
    let mut cluster = Cluster::start("up", plan)?;
    println!("{}", up::started(&mut cluster)?);
    // Ends with Ctrl-C. What the person kills stays dead, and is told once.
    let mut told = 0;
    loop {
        let ended = cluster.ended_by_themselves();
        for line in ended.iter().skip(told) {
            println!("{line}");
        }
        told = told.max(ended.len());
        std::thread::sleep(LOOK_PACE);
    }
}
