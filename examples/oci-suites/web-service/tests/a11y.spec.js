const { AxeBuilder } = require("@axe-core/playwright");
const { expect, test } = require("@playwright/test");

for (const path of process.env.PATHS.split(",")) {
  test(`${path} has no accessibility problems`, async ({ page }) => {
    await page.goto(path);
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map((each) => `${each.id}: ${each.help}`)).toEqual([]);
  });
}
