//! Takes a job through its life with lmstfy's own client. Arguments: port, namespace, token.

use lmstfy_client::api::Client;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let port = arguments[1].parse().expect("a port");
    let client = Client::new(&arguments[2], &arguments[3], "127.0.0.1", port, 1, 1);
    let queue = || "rust".to_owned();
    let fail = |error: lmstfy_client::errors::APIError| -> ! { panic!("{:?}: {}", error.err_type, error.reason) };

    let id = client.publish(queue(), String::new(), b"hello".to_vec(), 0, 1, 0).await;
    let (id, _) = id.unwrap_or_else(|error| fail(error));
    assert_eq!(client.queue_size(queue()).await.unwrap_or_else(|error| fail(error)), 1);
    let seen = client.peek_queue(queue()).await.unwrap_or_else(|error| fail(error)).expect("a job to look at");
    assert_eq!((seen.job_id, seen.data), (id.clone(), "aGVsbG8=".to_owned()));
    let jobs = client.consume(queue(), 10, 3).await.unwrap_or_else(|error| fail(error));
    assert_eq!(jobs.iter().map(|job| job.job_id.clone()).collect::<Vec<_>>(), [id.clone()]);
    client.ack(queue(), id.clone()).await.unwrap_or_else(|error| fail(error));
    let gone = client.peek_job(queue(), id).await.unwrap_or_else(|error| fail(error));
    assert!(gone.is_none());

    for _ in 0..3 {
        client.publish(queue(), String::new(), b"x".to_vec(), 60, 2, 0).await.unwrap_or_else(|error| fail(error));
    }
    let jobs = client.batch_consume(queue(), 30, 1, 10).await.unwrap_or_else(|error| fail(error));
    assert_eq!(jobs.len(), 3);
    let (dead, _) = client.peek_dead_letter(queue()).await.unwrap_or_else(|error| fail(error));
    assert_eq!(dead, 0);
    println!("done");
}
