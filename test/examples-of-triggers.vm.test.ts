/** The examples that events start, tested like the examples of `examples.vm.test.ts`. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { Rig, until } from './e2e/rig.ts';
import { ensureNatsServer, NATS_BUILD_LIMIT_MS, NO_NATS } from './rig/queues/nats-program.ts';
import { startNatsServer } from './rig/queues/nats-server.ts';
import { serveGit } from './rig/git/git-server.ts';
import { EXAMPLES, endRig, observations } from './rig/runs/examples.ts';
import { LOCALHOST_CERTIFICATE } from './rig/servers/localhost-certificate.ts';

let rig: Rig;
beforeAll(async () => {
  rig = new Rig();
  if (NO_NATS === null) await ensureNatsServer(console.error);
}, NATS_BUILD_LIMIT_MS);
afterAll(() => endRig(rig));

async function succeed(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await rig.cli(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

async function setSecret(name: string, deployment: string): Promise<void> {
  const { child, done } = rig.startFed('secret', 'set', name, '--deployment', deployment);
  child.stdin!.end('a secret of this test');
  const { code, stderr } = await done;
  expect(code, stderr).toBe(0);
}

interface Delivery {
  readonly state: string;
  readonly runId: string | null;
}

/** Waits for the outcomes of all deliveries of a deployment, the latest first. */
async function awaitOutcomes(deployment: string, count: number): Promise<readonly Delivery[]> {
  return await until(`${count} outcomes of ${deployment}`, 90_000, async () => {
    const listed = await succeed('deliveries', '--deployment', deployment, '--json');
    const { deliveries } = JSON.parse(listed) as { readonly deliveries: readonly Delivery[] };
    const open = deliveries.filter(({ state }) => ['accepted', 'held', 'starting'].includes(state));
    return deliveries.length === count && open.length === 0 ? deliveries : null;
  });
}

function makeRepository(folder: string): { readonly base: string; readonly head: string } {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', '-C', folder, ...args], { encoding: 'utf8' });
  mkdirSync(folder, { recursive: true });
  git('init', '-q', '-b', 'main');
  git('config', 'uploadpack.allowAnySHA1InWant', 'true');
  writeFileSync(join(folder, 'add.sh'), 'echo $(($1 + $2))\n');
  git('add', '.');
  git('commit', '-qm', 'a calculator');
  const base = git('rev-parse', 'HEAD').trim();
  git('checkout', '-q', '-b', 'faster');
  writeFileSync(join(folder, 'add.sh'), 'echo $(($1 - $2))\n');
  git('commit', '-qam', 'make it faster');
  return { base, head: git('rev-parse', 'HEAD').trim() };
}

test('pull-requests.yaml', { timeout: 240_000 }, async () => {
  const { base, head } = makeRepository(join(rig.specDir, 'repositories/app'));
  await using server = await serveGit({ root: join(rig.specDir, 'repositories'), login: null });
  const home = join(rig.specDir, 'home');
  mkdirSync(home);
  writeFileSync(join(home, 'ca.pem'), LOCALHOST_CERTIFICATE);
  writeFileSync(join(home, '.gitconfig'), `[http]\n  sslCAInfo = ${join(home, 'ca.pem')}\n`);
  Object.assign(rig.env, { HOME: home, VOIDBOX_CACHE_DIR: readEnvironment().cacheDir });

  const place = `localhost:${server.port}/app`;
  const text = readFileSync(join(EXAMPLES, 'pull-requests.yaml'), 'utf8')
    .replaceAll('github.com/OWNER/REPOSITORY', place)
    .replace('delay: 30s', 'delay: 2s');
  await setSecret('GITHUB_WEBHOOK_SECRET', 'pull-requests');
  await succeed('deploy', rig.spec('pull-requests.yaml', text), '--allow-git', place, '--mock-agents');

  const pullRequest = { title: '$(id) `faster` "calculator"', base: { sha: base }, head: { sha: head } };
  const write = (name: string, event: object): string => {
    writeFileSync(join(rig.specDir, name), JSON.stringify({ number: 12, pull_request: pullRequest, ...event }));
    return join(rig.specDir, name);
  };
  const send = ['delivery', 'send', 'pull-requests', 'opened', '--event', 'pull_request'] as const;
  const bodies = [write('opened.json', { action: 'opened' }), write('pushed.json', { action: 'synchronize' })];
  await succeed(...send, ...bodies.flatMap((body) => ['--body', body]));
  await succeed(...send, '--body', write('closed.json', { action: 'closed' }));

  const outcomes = await awaitOutcomes('pull-requests', 3);
  expect(outcomes.map(({ state }) => state).toSorted()).toEqual(['filtered', 'merged', 'started']);
  const runId = outcomes.find(({ state }) => state === 'started')!.runId!;
  expect((await rig.finish(runId)).outcome.state).toBe('succeeded');
  expect(await rig.output(runId, 'report')).toBe(
    '# Review of pull request 12: $(id) `faster` "calculator"\n\nThe mock agent has read the changes.',
  );
  const raw = await succeed('logs', runId, '--stage', 'review', '--raw');
  expect(raw, 'it reads the commit of the event').toContain('add.sh | 2 +-');
});

test('nightly-report.yaml', { timeout: 240_000 }, async () => {
  await succeed('deploy', join(EXAMPLES, 'nightly-report.yaml'));
  expect(await succeed('schedule', 'list')).toMatch(/nightly-report.*\n(?:.*\n)*.*02:30/);
  await succeed('schedule', 'trigger', 'nightly-report', 'nightly');
  const [{ runId }] = (await awaitOutcomes('nightly-report', 1)) as [Delivery];
  await rig.eventOf(runId!, 'stage-asking', 90_000);
  await succeed('approve', runId!);
  expect((await rig.finish(runId!)).outcome.state).toBe('succeeded');
  const rainy = new Map<string, number>();
  for (const { city, rainMm } of observations()) if (rainMm > 0) rainy.set(city, (rainy.get(city) ?? 0) + 1);
  const lines = [...rainy].map(([city, days]) => `${city}: ${days}`).toSorted();
  expect(await rig.output(runId!, 'publish')).toBe(`Rainy days by city:\n${lines.join('\n')}\n`);
  await succeed('deployment', 'delete', 'nightly-report');
});

test('the guide of folders: a file of a folder is the input of its run', { timeout: 240_000 }, async () => {
  const page = readFileSync(join(findPackageRoot(), 'docs/guides/folders.md'), 'utf8');
  const [, spec] = /```yaml\n([^]*?)```/.exec(page)!;
  const [, script] = /<!-- put a file -->\n```sh\n([^]*?)```/.exec(page)!;
  const incoming = join(rig.specDir, 'incoming');
  mkdirSync(incoming);
  await succeed('up', '--allow-watch', incoming);
  await succeed('deploy', rig.spec('import.yaml', spec!.replace('/srv/incoming', incoming)));
  execFileSync('bash', ['-euc', script!], { env: { ...process.env, FOLDER: incoming } });
  // Bytes that are no text, and more than an event may have.
  const bytes = randomBytes(3 * 1024 * 1024);
  writeFileSync(join(incoming, '.large'), bytes);
  renameSync(join(incoming, '.large'), join(incoming, 'large.csv'));
  const outcomes = await awaitOutcomes('import', 2);
  const outputs: string[] = [];
  for (const { runId } of outcomes) {
    expect((await rig.finish(runId!)).outcome.state).toBe('succeeded');
    outputs.push(await rig.output(runId!, 'count'));
  }
  const lines = bytes.filter((byte) => byte === 0x0a).length;
  expect(outputs.toSorted()).toEqual(['2\nof orders.csv\n', `${lines}\nof large.csv\n`].toSorted());
  await succeed('deployment', 'delete', 'import');
});

test(
  'the guide of a run after a run: an output of the ended run is a file of the next one',
  { timeout: 240_000 },
  async () => {
    const page = readFileSync(join(findPackageRoot(), 'docs/guides/run-after-a-run.md'), 'utf8');
    const specs = [...page.matchAll(/```yaml\n(kind: [^]*?)```/g)].map(([, text]) => text!);
    const find = (name: string): string => specs.find((text) => text.includes(`name: ${name}\n`))!;
    // More than the payload has, and a tar.
    const line = 'the file of the compiler ';
    const build = find('build').replace(
      'run: echo version 1.2.3',
      `run: { program: sh, args: ["-c", "mkdir out && echo inside > out/file && yes '${line}' | head -n 40000"] }
      outputs: [{ name: report, guest: /workspace/out }]`,
    );
    const unpack = find('publish')
      .replace('name: publish', 'name: unpack')
      .replace('output: compile', 'output: compile.report')
      .replace('program: cat, args: [/workspace/input.json]', 'program: tar, args: [-xOf, /workspace/input.json]');
    for (const [name, text] of Object.entries({ build, publish: find('publish'), unpack }))
      await succeed('deploy', rig.spec(`${name}.yaml`, text));
    await succeed('trigger', 'build', '--wait');
    for (const [name, output] of [
      ['publish', `${line}\n`.repeat(40_000)],
      ['unpack', 'inside\n'],
    ] as const) {
      const [{ runId }] = (await awaitOutcomes(name, 1)) as [Delivery];
      expect((await rig.finish(runId!)).outcome.state).toBe('succeeded');
      expect((await rig.output(runId!, 'read')) === output).toBe(true);
    }
    for (const name of ['build', 'publish', 'unpack']) await succeed('deployment', 'delete', name);
  },
);

const note = NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`;

test.skipIf(NO_NATS !== null)(`queue-consumer.yaml${note}`, { timeout: 240_000 }, async () => {
  const broker = await startNatsServer();
  onTestFinished(() => broker.stop());
  await broker.addStream();
  const text = readFileSync(join(EXAMPLES, 'queue-consumer.yaml'), 'utf8');
  const spec = rig.spec('queue-consumer.yaml', text.replace('"nats://127.0.0.1:4222"', `"${broker.address}"`));
  const refused = await rig.cli('deploy', spec);
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringContaining('which the operator of the service has not allowed'),
  ]);
  await succeed('up', '--allow-queue', `127.0.0.1:${broker.port}`);
  await succeed('deploy', spec);
  const order = { id: 7, item: '$(id) "tea"', quantity: 3, cents: 450 };
  for (const each of [order, order, { ...order, id: 8, quantity: 0 }])
    await broker.publish('orders.new', JSON.stringify(each));
  const outcomes = await awaitOutcomes('queue-consumer', 3);
  expect(outcomes.map(({ state }) => state).toSorted()).toEqual(['deduplicated', 'filtered', 'started']);
  await expect.poll(() => broker.countUnsettled('voidbox-orders')).toBe(0);
  const runId = outcomes.find(({ state }) => state === 'started')!.runId!;
  expect((await rig.finish(runId)).outcome.state).toBe('succeeded');
  expect(await rig.output(runId, 'invoice')).toBe('Order 7: 3 x $(id) "tea", 1350 cents\n');
  const shown = await succeed('deployment', 'show', 'queue-consumer');
  expect(shown).toMatch(/queue {7}orders: reading, since/);
  await broker.kill();
  await expect.poll(() => succeed('deployment', 'show', 'queue-consumer')).toContain('queue/unreachable');
});
