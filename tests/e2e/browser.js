/*
 * browser - the chat page in Chromium, driven by test_browser.py.
 *
 *   node browser.js SCENARIO URL
 *
 * Exit status 0 if all went as it should. CHROMIUM names the browser. Prints
 * a line, and reads one, where the scenario wants something from the test.
 */
'use strict';
const assert = require('assert');
const readline = require('readline');
const { chromium } = require('playwright-core');

const [scenario, url] = process.argv.slice(2);
const TIMEOUT_MS = 90000;
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic',
  '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

let browser;
const complaints = [];
const foreign = [];

/* A tab of its own, as another person has it; connected. */
async function tab(name) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const host = new URL(url).host;
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on('pageerror', error => complaints.push(String(error)));
  page.on('console', message => {
    if (message.type() === 'error')
      complaints.push(message.text());
  });
  page.on('request', request => {
    if (!request.url().startsWith('data:') && new URL(request.url()).host !== host)
      foreign.push(request.url());
  });
  page.on('websocket', socket => {
    if (new URL(socket.url()).host !== host)
      foreign.push(socket.url());
  });
  await page.goto(url);
  await page.waitForSelector('#state.open');
  await page.fill('#name', name);
  await page.press('#name', 'Enter');
  return page;
}

async function say(page, text) {
  await page.fill('#text', text);
  await page.press('#text', 'Enter');
}

/* Waits until the last message is this one; `from` undefined: one's own.
 * (The page's policy forbids eval, and so waitForFunction().) */
async function hears(page, text, from) {
  const last = page.locator('#log > :last-child' + (from === undefined ? '.own' : ':not(.own)'));
  await last.filter({ hasText: text }).waitFor();
  assert.strictEqual(await last.evaluate(element => element.firstChild.data), text);
  if (from !== undefined) {
    const names = await page.locator('#log b').allTextContents();
    assert.strictEqual(names[names.length - 1], from);
  }
}

/* The test does something while we wait. */
async function ask(words) {
  console.log(words);
  const lines = readline.createInterface({ input: process.stdin });
  for await (const line of lines) {
    lines.close();
    return line;
  }
  throw new Error('the test has gone');
}

const scenarios = {
  async chat() {
    const [ada, grace] = [await tab('Ada'), await tab('Grace')];
    await say(ada, 'hello');
    await hears(ada, 'hello');
    await hears(grace, 'hello', 'Ada');
    await say(grace, 'hello yourself: a \u2764');
    await hears(grace, 'hello yourself: a \u2764');
    await hears(ada, 'hello yourself: a \u2764', 'Grace');
    assert.strictEqual(await ada.inputValue('#text'), '');
  },

  async markup() {
    const [ada, grace] = [await tab('<i>Ada</i>'), await tab('Grace')];
    const text = '<img src=x onerror="document.title=1"><script>1</script>&amp;';
    await say(ada, text);
    await hears(grace, text, '<i>Ada</i>');
    assert.strictEqual(await grace.locator('#log img, #log script, #log i').count(), 0);
    assert.strictEqual(await grace.title(), 'nib hub');
  },

  /* Without a mouse: the message field has the focus, and gets it back. */
  async keyboard() {
    const [ada, grace] = [await tab('Ada'), await tab('Grace')];
    await ada.locator('#view').focus();
    await ada.keyboard.type('typed anywhere');
    await ada.keyboard.press('Enter');
    await hears(grace, 'typed anywhere', 'Ada');
  },

  /* The server goes away and comes back; the page finds it by itself. */
  async reconnect() {
    const ada = await tab('Ada');
    await ask('stop');
    await ada.waitForSelector('#state.closed');
    assert.strictEqual(await ada.isDisabled('#send'), true);
    const notes = await ada.locator('#log .note:not([hidden])').allTextContents();
    assert.match(notes[notes.length - 1], /^Connection closed: 1001\b/);
    await ask('start');
    await ada.waitForSelector('#state.open');
    await say(ada, 'back again');
    await hears(ada, 'back again');
    complaints.length = 0; /* that nobody was there for a while */
  },
};

(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM, args: FLAGS, timeout: TIMEOUT_MS });
  try {
    await scenarios[scenario]();
    assert.deepStrictEqual(complaints, []);
    assert.deepStrictEqual(foreign, []);
  } finally {
    await browser.close();
  }
  process.exit(0);
})().catch(error => {
  console.error(error);
  process.exit(1);
});
