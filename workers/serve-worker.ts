/** A worker process by its options and environment: which server, which folders, which pieces. */
import { parseArgs } from 'node:util';
import { durabilityOf, readEnvironment } from '../setup/environment.ts';
import type { HostPieces } from '../setup/host-pieces.ts';
import { resolveStackPieces } from '../setup/resolve.ts';
import { lazyPieces } from './lazy-pieces.ts';
import { createLog, textOf } from './log.ts';
import { configuredAddress, embeddedAddress } from '../client/temporal-address.ts';
import { runWorkerProcess } from './worker-process.ts';

const USAGE = 'name the server by TEMPORAL_ADDRESS, a temporal.toml profile, or --address HOST:PORT';

/** Ends the process when it has worked. */
export async function serveWorker(): Promise<void> {
  const log = createLog('worker');
  const { values } = parseArgs({
    options: {
      embedded: { type: 'boolean', default: false },
      address: { type: 'string' },
      namespace: { type: 'string', default: 'default' },
      'state-dir': { type: 'string' },
      keeper: { type: 'string' },
      pieces: { type: 'string' },
      'allow-mounts': { type: 'string', multiple: true, default: [] },
      skills: { type: 'string', multiple: true, default: [] },
    },
  });
  try {
    const env = readEnvironment();
    const target =
      values.address === undefined ? configuredAddress(env) : embeddedAddress(values.address, values.namespace);
    if (target === null) throw new Error(USAGE);
    const known = values.pieces === undefined ? null : (JSON.parse(values.pieces) as HostPieces);
    await runWorkerProcess({
      target,
      stateDir: values['state-dir'] ?? env.stateDir,
      keeper: values.keeper ?? known?.keeper ?? (await resolveStackPieces(env, { install: false })).keeper,
      pieces: known === null ? lazyPieces(env) : () => Promise.resolve(known),
      bootTimeoutMs: env.bootTimeoutMs,
      diskFullLimitMs: env.diskFullLimitMs,
      orphanTimeoutMs: env.orphanTimeoutMs,
      embedded: values.embedded,
      durability: durabilityOf(env, values.embedded ? 'embedded' : 'own'),
      allowedMountRoots: values['allow-mounts'],
      // The supervisor of the embedded stack names them all.
      skills: values.embedded ? values.skills : [...values.skills, ...env.skills],
      skillTurnLimitMs: env.skillTurnLimitMs,
      variables: env.variables,
      log,
      onReady: (hostId) =>
        process.stdout.write(
          `voidbox-worker ready: host ${hostId}, server ${target.address}, namespace ${target.namespace}\n`,
        ),
    });
    process.exit(0);
  } catch (error) {
    log('error', error instanceof Error && error.stack !== undefined ? error.stack : textOf(error));
    process.exit(1);
  }
}
