/** How long a user waits for the first change of a real agent, and for the next one. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { preparePatches } from '../first-patch.ts';
import type { Figure } from '../report.ts';
import { spread } from '../measure.ts';
import type { Bench } from './bench.ts';

const FIRST_S = 180;
const NEXT_S = 30;

export async function firstPatchFigure(bench: Bench): Promise<Figure> {
  const folder = join(bench.workDir, 'first-patch');
  const home = join(folder, 'home');
  mkdirSync(home, { recursive: true });
  const { HOME = '/root', PATH, LANG, NODE_EXTRA_CA_CERTS, ...others } = bench.env.variables;
  // Keeps only the variables that the Rust toolchain and a proxy of this machine need.
  const machine = Object.fromEntries(
    Object.entries(others).filter(([name]) => /^(RUSTUP_|HTTPS?_PROXY|NO_PROXY|SSL_|npm_config_)/i.test(name)),
  );
  const env = {
    ...machine,
    PATH,
    LANG,
    NODE_EXTRA_CA_CERTS,
    RUSTUP_HOME: others['RUSTUP_HOME'] ?? join(HOME, '.rustup'),
    HOME: home,
    OPENAI_API_KEY: 'sk-invalid',
    NO_COLOR: '1',
  };
  await using patches = await preparePatches({ bin: join(bench.root, 'bin', 'voidbox.js'), folder, env });
  const firstS = (await patches.patch()) / 1_000;
  bench.say(`  first: ${firstS.toFixed(1)} s`);
  const nextS: number[] = [];
  for (let round = 0; round < bench.rounds; round += 1) {
    nextS.push((await patches.patch()) / 1_000);
    bench.say(`  next ${round + 1}/${bench.rounds}: ${nextS.at(-1)!.toFixed(1)} s`);
  }
  const next = spread(nextS);
  return {
    title: '(p) The first patch of an agent',
    method:
      'From `voidbox run` in a home without a cache or a stack to the change in the repository. Set-up downloads and builds everything that the machine lacks. The unmodified command line of Codex works in a VM of the dev image on a workspace and commits. Then `voidbox apply` brings the change in. The model is a server that plays a script, so its time is not in it; nor is `npm ci`. Then the same again, with the stack running.',
    rows: [
      { what: 'the first', value: spread([firstS]), unit: 's' },
      { what: 'the next', value: next, unit: 's' },
    ],
    goals: [
      { what: 'the first patch, in s', value: firstS, goal: `≤ ${FIRST_S}`, met: firstS <= FIRST_S },
      { what: 'the next patch, in s', value: next.median, goal: `≤ ${NEXT_S}`, met: next.median <= NEXT_S },
    ],
  };
}
