"""A reactor: `keys_to_get` are the nouns it takes, `key_required` says which of them it needs."""

from enginehost.reactor import NounMetadata, PixelDataType, Reactor


class OrderTotalReactor(Reactor):
    """Adds the prices of an order."""

    keys_to_get = ("prices", "discount")
    key_required = (1, 0)

    def execute(self) -> NounMetadata:
        prices = self.get_nouns("prices")
        discount = self.key_value.get("discount", 0)
        if any(price < 0 for price in prices):
            return NounMetadata.error("a price may not be negative")
        total = round(sum(prices) * (1 - discount), 2)
        return NounMetadata({"items": len(prices), "total": total}, PixelDataType.MAP)
