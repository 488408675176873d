//! Stores orders of customers in SlateDB, with a writer, a reader and a compactor that use the same
//! filters.
//!
//! `cargo run --release -p filterblock-slatedb --example orders -- all orders-data` runs every part
//! in one process. Replace `all` with `writer`, `reader`, `compactor` or `check` to run each part
//! in its own process. To use object storage, change only `store`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use filterblock_slatedb::Filters;
use slatedb::config::{CompactorOptions, FlushOptions, FlushType, Settings};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::{CompactorBuilder, Db, DbReader, PrefixExtractor, PrefixTarget, SstReader};

const ROOT: &str = "orders";
const MIN_FILTER_KEYS: u32 = 1_000;

/// A prefix extractor that takes the customer from a key like `customer 17/order 3`, including the
/// slash.
struct Customer;

impl PrefixExtractor for Customer {
    // Change the name whenever `prefix_len` changes.
    fn name(&self) -> &'static str {
        "customer"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        bytes.iter().position(|&byte| byte == b'/').map(|slash| slash + 1)
    }
}

/// Returns the filters of the database. Every process calls this function.
fn filters() -> filterblock::Result<Filters> {
    let (small, large) = ("blocked-bloom:12".parse()?, "bumped-ribbon:7".parse()?);
    Filters::by_num_keys(move |keys| Some(if keys < 16_384 { small } else { large }))
        .on_unusable(|error| eprintln!("filter not used: {error}"))
        .with_prefixes(Arc::new(Customer), true)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, dir] = &arguments[..] else {
        return Err("give a role and a folder, for example: all orders-data".into());
    };
    if !["all", "writer", "compactor", "reader", "check"].contains(&role.as_str()) {
        return Err(format!("unknown role {role}; give all, writer, compactor, reader or check").into());
    }
    std::fs::create_dir_all(dir)?;
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(dir)?);
    let filters = filters()?;
    // A process whose policies differ from the record stops here, before it writes an SST.
    filters.record_or_compare(ROOT, &store).await?;

    let is = |part: &str| role == part || role == "all";
    if is("writer") {
        write(&store, &filters).await?;
    }
    if is("compactor") {
        compact(&store, &filters).await?;
    }
    if is("reader") {
        read(&store, &filters).await?;
    }
    if is("check") {
        let ssts = SstReader::new(ROOT, Arc::clone(&store), None, None);
        let inspection = filters.inspect(DbReader::builder(ROOT, Arc::clone(&store)), &ssts).await?;
        inspection.ssts.iter().for_each(|sst| println!("{sst}: {} bytes", sst.filter_len_bytes));
        inspection.check(MIN_FILTER_KEYS)?;
    }
    println!("{role}: {:?}", filters.counts());
    Ok(())
}

async fn write(store: &Arc<dyn ObjectStore>, filters: &Filters) -> Result<(), slatedb::Error> {
    // Compactions run in the part `compactor`. To compact in the writer, leave out
    // `compactor_options: None`.
    let settings = Settings { min_filter_keys: MIN_FILTER_KEYS, compactor_options: None, ..Settings::default() };
    let builder = Db::builder(ROOT, Arc::clone(store)).with_settings(settings);
    let db = builder.with_filter_policies(filters.policies()).build().await?;
    for part in 0..4 {
        for customer in (part..4_000).step_by(4) {
            for order in 0..10 {
                db.put(format!("customer {customer:04}/order {order}"), b"1 apple").await?;
            }
        }
        db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
    }
    db.close().await
}

async fn compact(store: &Arc<dyn ObjectStore>, filters: &Filters) -> Result<(), slatedb::Error> {
    // `worker.min_filter_keys` must equal the writer's; 1,000 is the default of both.
    let options = CompactorOptions { poll_interval: Duration::from_millis(100), ..CompactorOptions::default() };
    let builder = CompactorBuilder::new(ROOT, Arc::clone(store)).with_options(options);
    let compactor = builder.with_filter_policies(filters.policies()).build();
    // A real compactor runs until the process ends.
    let _ = tokio::time::timeout(Duration::from_secs(8), compactor.run()).await;
    compactor.stop().await
}

async fn read(store: &Arc<dyn ObjectStore>, filters: &Filters) -> Result<(), slatedb::Error> {
    let builder = DbReader::builder(ROOT, Arc::clone(store));
    let reader = builder.with_filter_policies(filters.policies()).build().await?;
    assert!(reader.get("customer 0017/order 3").await?.is_some());
    assert!(reader.get("customer 0017/order 77").await?.is_none());
    let mut orders = reader.scan_prefix("customer 0017/", ..).await?;
    while let Some(order) = orders.next().await? {
        println!("{}", String::from_utf8_lossy(&order.key));
    }
    reader.close().await
}
