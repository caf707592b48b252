//! What has happened between two pictures.

use crate::demo::picture::{Claim, Picture, Stage};

/// What has happened between two pictures, a sentence each.
pub fn changes(before: &Picture, after: &Picture) -> Vec<String> {
    let mut news = Vec::new();
    for deployment in &after.machine_deployments {
        let earlier = before.machine_deployments.iter().find(|earlier| earlier.name == deployment.name);
        let replicas = earlier.map_or(0, |earlier| earlier.replicas);
        if replicas != deployment.replicas {
            news.push(format!(
                "MachineDeployment {}: replicas {replicas} → {}",
                deployment.name, deployment.replicas
            ));
        }
    }
    for claim in &after.claims {
        news.extend(claim_change(before.claim(&claim.name), claim));
    }
    let gone = before.claims.iter().filter(|claim| after.claim(&claim.name).is_none());
    news.extend(gone.map(|claim| match &claim.machine {
        Some(machine) => format!("NodeClaim {} is gone, and Machine {machine} with it", claim.name),
        None => format!("NodeClaim {} is gone", claim.name),
    }));
    let told = after.events.iter().filter(|told| !before.events.contains(told));
    news.extend(told.map(|told| format!("{}: {}", told.about, told.message)));
    news
}

/// Created, initialized and deleting are told; what lies between stands in the table.
fn claim_change(before: Option<&Claim>, claim: &Claim) -> Option<String> {
    let name = &claim.name;
    match (before.map(|before| before.stage), claim.stage) {
        (None, Stage::Created) => Some(format!(
            "NodeClaim {name} is to be served by MachineDeployment {}",
            claim.machine_deployment
        )),
        (before, Stage::Initialized) if before != Some(Stage::Initialized) => {
            let machine = claim.machine.as_deref().unwrap_or("?");
            Some(format!("NodeClaim {name} is initialized, on Machine {machine}"))
        }
        (before, Stage::Deleting) if before != Some(Stage::Deleting) => {
            Some(format!("NodeClaim {name} is being deleted"))
        }
        _ => None,
    }
}
