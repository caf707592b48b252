//! The acts: each changes something, waits for what follows, and checks that it came out as announced.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch::Receiver;

use super::picture::{Claim, Picture, Stage};
use super::render::flow;
use super::screen::{Line, Style};
use super::stage::{BATCH, GENERAL, PODS, WEB, scale};
use crate::objects;

/// How long a state may take to come.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long people may look at a state that has come.
const LOOK: Duration = Duration::from_secs(4);
/// Pods of `web` when there is much to do.
const MUCH_WEB: i32 = 60;
/// Pods of `batch` when there is a batch.
const MUCH_BATCH: i32 = 6;

/// An act of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// More pods of `web` than there is room for.
    MorePods,
    /// Pods that only the tainted pool may have.
    Batch,
    /// One NodeClaim goes, and exactly its Machine with it.
    OneClaimGoes,
    /// Pods go, and then the NodeClaims that nobody needs, all at once.
    ScaleDown,
}

/// The acts in their order.
pub const SCRIPT: [Act; 4] = [Act::MorePods, Act::Batch, Act::OneClaimGoes, Act::ScaleDown];

/// Plays acts.
pub(super) struct Player {
    client: Client,
    pictures: Receiver<Picture>,
    said: UnboundedSender<Line>,
    /// NodeClaims of the general pool at the beginning.
    ordinary: usize,
    /// Whether nobody is given time to look, as in a test.
    hurries: bool,
}

impl Player {
    pub(super) fn new(client: Client, pictures: Receiver<Picture>, said: UnboundedSender<Line>) -> Self {
        Self { client, pictures, said, ordinary: 0, hurries: false }
    }

    /// Waits for the first pods to run, then plays that many acts, or acts without end.
    pub(super) async fn play(&mut self, acts: Option<usize>) -> Result<()> {
        self.hurries = acts.is_some();
        self.say(&format!("The operator starts. {PODS} pods wait; there is no Node."));
        let picture = self.all_pods_run().await?;
        self.ordinary = of_pool(&picture, GENERAL).len();
        self.say(&format!(
            "All {} pods run on {} Nodes, for ${:.2} an hour.",
            picture.running(),
            picture.nodes(),
            picture.cost()
        ));
        let script = SCRIPT.iter().cycle().enumerate();
        for (number, act) in script.take(acts.unwrap_or(usize::MAX)) {
            self.pause().await;
            self.act(*act).await.with_context(|| format!("act {}, {act:?}", number + 1))?;
        }
        // The last sentence is to be read, too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    async fn pause(&self) {
        if !self.hurries {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::MorePods => self.more_pods().await,
            Act::Batch => self.batch().await,
            Act::OneClaimGoes => self.one_claim_goes().await,
            Act::ScaleDown => self.scale_down().await,
        }
    }

    async fn more_pods(&mut self) -> Result<()> {
        self.announce(&format!("Act: Deployment web goes from {WEB} to {MUCH_WEB} pods."));
        scale(&self.client, "web", MUCH_WEB).await?;
        let picture = self.all_pods_run().await?;
        self.say(&format!("All {} pods run, for ${:.2} an hour.", picture.running(), picture.cost()));
        Ok(())
    }

    async fn batch(&mut self) -> Result<()> {
        self.announce(&format!(
            "Act: {MUCH_BATCH} pods of batch tolerate the taint of NodePool batch and select it; they get Nodes of their own."
        ));
        scale(&self.client, "batch", MUCH_BATCH).await?;
        let picture = self.all_pods_run().await?;
        let claims = of_pool(&picture, BATCH);
        let pods: usize = claims.iter().map(|claim| claim.pods).sum();
        let wanted = usize::try_from(MUCH_BATCH).unwrap_or_default();
        ensure!(pods == wanted, "{pods} pods run on the Nodes of NodePool batch");
        self.say(&format!("{} Nodes for batch came and took them.", claims.len()));
        Ok(())
    }

    async fn one_claim_goes(&mut self) -> Result<()> {
        let before = self.until("nothing moves", Picture::is_quiet).await?;
        let claims: Vec<&Claim> =
            of_pool(&before, GENERAL).into_iter().filter(|claim| claim.pods > 0).collect();
        // Neither the oldest nor the newest, where Cluster API would choose one of these by itself.
        let claim = claims.get(claims.len() / 2).context("no NodeClaim carries a pod")?;
        let machine = claim.machine.clone().context("a NodeClaim without Machine is initialized")?;
        self.announce(&format!(
            "Act: NodeClaim {} is deleted. Its {} pods are evicted, and exactly its Machine {machine} goes.",
            claim.name, claim.pods
        ));
        self.delete(&[claim]).await?;
        let going = BTreeSet::from([machine.clone()]);
        let after = self.given_back(&before, &going).await?;
        self.say(&format!(
            "Machine {machine} is gone, the other {} stayed, and all {} pods run.",
            before.machines().len() - 1,
            after.running()
        ));
        Ok(())
    }

    async fn scale_down(&mut self) -> Result<()> {
        self.announce(&format!(
            "Act: batch is done and web goes back to {WEB} pods. Nodes stay: this version gives back only what it is told to."
        ));
        scale(&self.client, "batch", 0).await?;
        scale(&self.client, "web", WEB).await?;
        let before =
            self.until("the pods are gone", |picture| picture.all_pods_run() && picture.is_quiet()).await?;
        let spare = of_pool(&before, GENERAL).len().saturating_sub(self.ordinary);
        let mut claims = of_pool(&before, BATCH);
        claims.extend(of_pool(&before, GENERAL).into_iter().rev().take(spare));
        self.pause().await;
        self.announce(&format!(
            "Act: NodeClaims that nobody needs now, {} of batch and the {spare} newest of general, are deleted at once.",
            claims.len() - spare
        ));
        let going: BTreeSet<String> = claims.iter().filter_map(|claim| claim.machine.clone()).collect();
        self.delete(&claims).await?;
        let after = self.given_back(&before, &going).await?;
        self.say(&format!(
            "Exactly these {} Machines are gone; ${:.2} an hour became ${:.2}.",
            going.len(),
            before.cost(),
            after.cost()
        ));
        Ok(())
    }

    /// Waits until these Machines are gone and everything is quiet, and checks that no other went.
    async fn given_back(&mut self, before: &Picture, going: &BTreeSet<String>) -> Result<Picture> {
        let after = self
            .until("the Machines are gone and all pods run", |picture| {
                let (live, leaving) = (picture.machines(), picture.going());
                let gone = going
                    .iter()
                    .all(|name| !live.contains(name.as_str()) && !leaving.contains(name.as_str()));
                gone && picture.all_pods_run() && picture.is_quiet()
            })
            .await?;
        let live = after.machines();
        let lost: Vec<_> = before
            .machines()
            .into_iter()
            .filter(|name| !live.contains(name) && !going.contains(*name))
            .collect();
        ensure!(lost.is_empty(), "Machines that nobody gave up are gone: {}", lost.join(", "));
        Ok(after)
    }

    async fn delete(&self, claims: &[&Claim]) -> Result<()> {
        let api =
            objects::api_of(&self.client, &json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim" }))?;
        for claim in claims {
            api.delete(&claim.name, &DeleteParams::default())
                .await
                .with_context(|| format!("deleting NodeClaim {}", claim.name))?;
        }
        Ok(())
    }

    async fn all_pods_run(&mut self) -> Result<Picture> {
        self.until("all pods run", |picture| picture.all_pods_run() && picture.is_quiet()).await
    }

    /// Waits until a picture is as wanted in three looks on end, as what was just written shows only in the next.
    async fn until(&mut self, what: &str, wanted: impl Fn(&Picture) -> bool) -> Result<Picture> {
        let mut in_a_row = 0;
        let looking = async {
            loop {
                self.pictures.changed().await.context("nobody looks any more")?;
                let picture = self.pictures.borrow_and_update().clone();
                in_a_row = if wanted(&picture) { in_a_row + 1 } else { 0 };
                if in_a_row >= 3 {
                    return Ok(picture);
                }
            }
        };
        if let Ok(found) = tokio::time::timeout(PATIENCE, looking).await {
            return found;
        }
        let last = self.pictures.borrow().clone();
        let waiting = last.claims.iter().filter(|claim| claim.stage != Stage::Initialized);
        let waiting: Vec<_> =
            waiting.map(|claim| format!("{} is {}", claim.name, claim.stage.word())).collect();
        bail!(
            "expected within {} s that {what}; last seen: {}; {}",
            PATIENCE.as_secs(),
            flow(&last),
            waiting.join(", ")
        )
    }

    fn announce(&self, text: &str) {
        self.tell(Line::styled(Style::Bold, text));
    }

    fn say(&self, text: &str) {
        self.tell(Line::text(text));
    }

    fn tell(&self, line: Line) {
        // Nobody hears it only when the demo is ending.
        let _ = self.said.send(line);
    }
}

/// The claims of a pool, oldest first.
fn of_pool<'a>(picture: &'a Picture, pool: &str) -> Vec<&'a Claim> {
    picture.claims.iter().filter(|claim| claim.node_pool == pool).collect()
}
