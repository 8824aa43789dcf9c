// The addresses that scripts call or go to: the page has them from the routes of the site.

export const urls = JSON.parse(document.body.dataset.urls);

/** The page of a run. */
export const runUrl = (id) => urls.run.replace("RUN_ID", encodeURIComponent(id));
