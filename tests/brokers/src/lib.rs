//! Real Kafka and RabbitMQ servers of one's own, without containers: started on free ports of 127.0.0.1, stopped on drop.
