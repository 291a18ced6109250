package shop;

/** What is scheduled, and comes back when it is due. */
public class Order {
    public long orderId;
    public String state;

    /** For Kryo. */
    public Order() {}

    public Order(long orderId, String state) {
        this.orderId = orderId;
        this.state = state;
    }
}
