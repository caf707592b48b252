//! The demo: a small cluster on a hollow cloud, the operator beside it, and acts that show what it does.
//!
//! [`run`] sets the stage and plays the acts; [`picture`] is what is seen of the cluster, [`render`] makes lines of it without
//! doing anything else, and `screen` puts them on a terminal.

mod acts;
mod observe;
pub mod picture;
pub mod render;
mod screen;
mod stage;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::watch;

use crate::plane::{ControlPlane, Options as PlaneOptions, Program};
use acts::Player;
pub use acts::SCRIPT;
use observe::Observer;
use picture::Picture;
use screen::{Line, Screen};

/// How often the cluster is looked at.
const EVERY: Duration = Duration::from_millis(400);
/// How long looking may fail.
const BLIND: Duration = Duration::from_secs(10);
/// Lines of the operator's log that an error shows.
const LOG_LINES: usize = 20;

/// What the demo shall do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The number of acts after which it ends; none plays them until it is dropped.
    pub acts: Option<usize>,
    /// Lines as on a pipe, also on a terminal.
    pub plain: bool,
}

/// Sets the stage and plays the acts. Dropping the future ends every process.
///
/// Fails when a part of the control plane or the operator ends, or when an act doesn't come out as it was announced.
pub async fn run(options: &Options) -> Result<()> {
    let manager = crate::operator_binary("cargo xtask demo")?;
    let mut screen = Screen::on_stdout(options.plain);
    screen.say(&Line::text("Starting etcd, Kubernetes, Cluster API and a hollow cloud: some seconds."));
    let played = ControlPlane::with(PlaneOptions::complete("demo"), async |plane| {
        let client = plane.client()?;
        let _cloud = stage::set(plane, &client).await?;
        stage::tell(plane, &mut screen);
        let operator = stage::start_operator(plane, &manager)?;
        let (sender, receiver) = watch::channel(Picture::default());
        let (said, hearing) = tokio::sync::mpsc::unbounded_channel();
        let mut player = Player::new(client.clone(), receiver, said);
        let show = show(plane, operator, screen, Observer::new(client), sender, hearing);
        tokio::select! {
            result = player.play(options.acts) => result,
            result = show => result,
        }
    });
    // The whole demo is one future, too large for a stack.
    Box::pin(played).await
}

/// Looks and draws until something ends that must not.
async fn show(
    plane: &ControlPlane,
    mut operator: Program,
    mut screen: Screen,
    observer: Observer,
    pictures: watch::Sender<Picture>,
    mut hearing: tokio::sync::mpsc::UnboundedReceiver<Line>,
) -> Result<()> {
    let started = Instant::now();
    let mut last_seen = started;
    let mut history = render::History::default();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(line) = hearing.recv() => screen.say(&line.at(started.elapsed())),
            _ = ticks.tick() => {
                plane.all_alive()?;
                if let Some(status) = operator.ended()? {
                    bail!("the operator has ended: {status}; {}", operator.log_tail(LOG_LINES));
                }
                let picture = match observer.look().await {
                    Ok(picture) => picture,
                    // An API server that has just got new kinds refuses now and then.
                    Err(_) if last_seen.elapsed() < BLIND => continue,
                    Err(error) => return Err(error).context("looking at the cluster"),
                };
                last_seen = Instant::now();
                let news = history.advance(&picture, started.elapsed());
                screen.show(&picture, &history, &news, started.elapsed());
                pictures.send_replace(picture);
            }
        }
    }
}
