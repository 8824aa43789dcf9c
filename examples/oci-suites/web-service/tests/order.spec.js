const { expect, test } = require("@playwright/test");

test("an order of the page is shipped", async ({ page }) => {
  await page.goto("/");
  await page.getByLabel("Item").fill("a green <kettle>");
  await page.getByRole("button", { name: "Order" }).click();
  await expect(page.getByText("a green <kettle>")).toBeVisible();
  await expect(async () => {
    await page.reload();
    await expect(page.getByText("a green <kettle>: shipped")).toBeVisible({ timeout: 500 });
  }).toPass({ timeout: 15_000 });
});

test("an order needs an item", async ({ page }) => {
  await page.goto("/");
  const before = await page.getByRole("listitem").count();
  await page.getByRole("button", { name: "Order" }).click();
  await expect(page.getByLabel("Item")).toHaveJSProperty("validity.valueMissing", true);
  expect(await page.getByRole("listitem").count()).toBeGreaterThanOrEqual(before);
});
