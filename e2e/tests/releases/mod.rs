//! Earlier releases of Cluster API, unmodified, each on a management cluster without a node.

mod contract_v1beta1;
mod contract_v1beta2;
