/** Dependencies of the activities of each worker in tests, with a server and without: stores, and VMs of the given backend. */
import type { ActivityDeps } from '../../../activities/deps.ts';
import { createAttemptRegistry } from '../../../activities/attempt/registry.ts';
import { NO_LENT_VARIABLES } from '../../../activities/ports/lent-variables.ts';
import type { SandboxBackend } from '../../../activities/ports/sandbox.ts';
import { createVmPool } from '../../../activities/vm/pool.ts';
import { createWritableMounts } from '../../../sandbox/mounts/writable-mounts.ts';
import { isDiskFull, readDiskRoom } from '../../../store/disk-room.ts';
import type { Stores } from '../../../store/stores.ts';
import { findCheckpoints, listCheckpointFolders, mountsDir } from '../../../store/state-folder.ts';
import { createStepCheckpoints } from '../../../sandbox/checkpoints/step-checkpoints.ts';
import { createGitRepositories } from '../../../workers/checkout/git-repositories.ts';
import { createPreparedSandboxes } from '../../../workers/host/prepared-sandboxes.ts';
import { createHostLeases } from '../../../workers/host/leases.ts';

export interface WorkerOnFiles {
  readonly stateDir: string;
  readonly stores: Stores;
  readonly backend: SandboxBackend;
}

/** @param budgetMib  memory that VMs may take together */
export function createWorkerDeps(
  { stateDir, stores, backend }: WorkerOnFiles,
  placement: ActivityDeps['placement'],
  budgetMib: number,
) {
  return {
    ...stores,
    lentVariables: NO_LENT_VARIABLES,
    mounts: createWritableMounts((runId) => mountsDir(stateDir, runId)),
    prepared: createPreparedSandboxes(stateDir),
    checkpoints: createStepCheckpoints({
      folderOf: (runId) => findCheckpoints(stateDir, runId),
      listFolders: () => listCheckpointFolders(stateDir),
      readRoom: () => readDiskRoom(stateDir),
    }),
    repositories: createGitRepositories({
      artifacts: stores.artifacts,
      stateDir,
      path: '/usr/local/bin:/usr/bin:/bin',
      home: null,
    }),
    backendFor: () => backend,
    leases: createHostLeases({
      placement,
      overheadMib: 160,
      budgetMib,
      availableMib: () => budgetMib,
      disk: () => ({ availableBytes: 1, floorBytes: 1 }),
    }),
    disk: { hasRoomForOutput: () => true, isFull: isDiskFull, limitMs: 60_000 },
    attempts: createAttemptRegistry(),
    vms: createVmPool(),
    placement,
    serverId: 'embedded',
    mountPolicy: { allowedRoots: [] },
    now: Date.now,
  } satisfies Partial<ActivityDeps>;
}
