"""The databus of enginehost on RTI Connext. RTI's library is loaded when a host joins the bus."""
