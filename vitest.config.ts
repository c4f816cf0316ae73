/**
 * Tests are grouped by what they touch, which their file names say: `x.test.ts` nothing but files, `x.process.test.ts`
 * child processes, `x.server.test.ts` a Temporal server, `x.vm.test.ts` real micro-VMs. `x.isolated.test.ts` is a pure test
 * that needs a process of its own. `x.agents.test.ts` is the lane of `npm run test:agents`: VMs with command lines of agents that each user downloads, against a model that plays a script. `x.clock.test.ts` is the lane of `npm run test:clock`: VMs whose clock is followed for minutes. `x.kvm.test.ts` is the lane of `npm run test:kvm`: whole tables on a real /dev/kvm.
 */
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const NOT_TESTS = ['**/node_modules/**', '**/dist/**', '**/target/**'];
const every = (suffix: string): string[] => [`**/*.${suffix}`];
const IN_GROUPS = ['isolated', 'process', 'server', 'vm', 'agents', 'clock', 'kvm'].flatMap((group) =>
  every(`${group}.test.ts`),
);

/** One for each CPU; vitest would leave one of them idle, which is half of a machine with two. */
const WORKERS = availableParallelism();

/** A limit of seconds in them is a promise of the product to a person, which a loaded machine does not keep. They have the machine for themselves. */
const ALONE = ['test/e2e/cancel-at-once.vm.test.ts'];

/** Files that take a large part of their group's time start first, the longest of them first, so that the others run beside them. */
const LONG_FILES = [
  '/test/examples-of-agents.vm.test.ts',
  '/test/examples-of-many.vm.test.ts',
  '/test/examples.vm.test.ts',
  '/sandbox/dev-image.vm.test.ts',
  '/e2e/continued-agents.vm.test.ts',
  '/kvm-lab/smoke.vm.test.ts',
  '/sandbox/snapshots.vm.test.ts',
  '/storm.vm.test.ts',
  '/e2e/worker-death.vm.test.ts',
  '/sandbox/micro-vm.vm.test.ts',
  '/e2e/snapshots.vm.test.ts',
  '/e2e/step-checkpoints.vm.test.ts',
  '/sandbox/snapshots-crash.vm.test.ts',
  '/e2e/hostile-guest.vm.test.ts',
  '/e2e/retained-vm.vm.test.ts',
  '/e2e/stack-death.vm.test.ts',
  '/sandbox/checkpoints.vm.test.ts',
  '/sandbox/snapshots-hostile.vm.test.ts',
  '/test/examples-of-triggers.vm.test.ts',
  '/e2e/deployments.vm.test.ts',
  '/e2e/agent-budgets.vm.test.ts',
  '/e2e/cancel.vm.test.ts',
  '/e2e/partial-work.vm.test.ts',
  '/compat/void-box.vm.test.ts',
  '/e2e/disk-full.vm.test.ts',
  '/test/pages.vm.test.ts',
  '/e2e/service.vm.test.ts',
  '/e2e/real-agents.vm.test.ts',
  '/e2e/agent-resume.vm.test.ts',
  '/e2e/state-format.vm.test.ts',
  '/e2e/vm-death.vm.test.ts',
  '/dev-disk/equal-bytes.vm.test.ts',
  '/sandbox/hostile-guest.vm.test.ts',
  '/e2e/agents.vm.test.ts',
  '/e2e/dev-image.vm.test.ts',
  '/e2e/idle-vm.vm.test.ts',
  '/e2e/hostile-agent.vm.test.ts',
  '/e2e/mounts.vm.test.ts',
  '/e2e/network.vm.test.ts',
  '/service/service-storm.server.test.ts',
  '/triggers/trigger-storm.server.test.ts',
  '/embedded/stack.server.test.ts',
  '/test/cli/run.server.test.ts',
  '/test/cli/session.server.test.ts',
  '/embedded/two-builds.server.test.ts',
  '/bundle/durable.server.test.ts',
  '/test/temporal-plugin.server.test.ts',
  '/skills/environment.server.test.ts',
  '/durable/durable.server.test.ts',
  '/test/cli/own-server.server.test.ts',
  '/skills/session-death.server.test.ts',
  '/skills/every-transport.server.test.ts',
  '/skills/session.server.test.ts',
  '/runs/run-history.server.test.ts',
  '/embedded/idle-watch.server.test.ts',
  '/embedded/schedules.server.test.ts',
  '/test/cli/retry.server.test.ts',
  '/postgres/postgres-access.process.test.ts',
  '/git/limits.process.test.ts',
  '/test/package.process.test.ts',
  '/bundle/build-skill.process.test.ts',
  '/test/cli/apply-hostile.process.test.ts',
  '/fuzz/state-folder.process.test.ts',
  '/test/cli/transcripts.process.test.ts',
  '/skill-kit/cli/cli.process.test.ts',
  '/test/cli/apply.process.test.ts',
  '/fuzz/specs.test.ts',
  '/mounts/writable-mounts.test.ts',
  '/lint/text-defects.test.ts',
  '/activities/agent/hang.test.ts',
];

/** Under load a condition takes seconds to hold; vitest would poll for one. */
const EXPECT = { poll: { timeout: 20_000 } };

const SETUP_FILES = ['test/rig/fast-node-starts.ts', 'test/rig/no-login.ts'];

/** Some tests need 5 s of a CPU, and at a load of 30 a test gets a twentieth of one. */
const LIMITS = { testTimeout: 120_000, hookTimeout: 120_000 };

/** Each file has servers of its own, and waits for them more than it computes: it needs less than half a CPU. */
const SERVER_WORKERS = 4;
const SERVER_SETUP = ['test/rig/servers/host-pieces.setup.ts', 'test/rig/servers/workflow-bundle.setup.ts'];

/**
 * The files of a group share processes, because a process and the modules that it loads take half a second of a CPU, and
 * a second with the SDK of Temporal. These change what is left to the next file, or measure their process, so each has a
 * process of its own. test/structure/isolation.test.ts compares this list with the files.
 */
export const OWN_PROCESS = [
  'client/temporal/pollers.server.test.ts',
  'sandbox/hostile-guest.vm.test.ts',
  'sandbox/keeper-death.vm.test.ts',
  'sdk/run.server.test.ts',
  'setup/bootstrap.process.test.ts',
  'setup/cache/damage.process.test.ts',
  'skill-kit/bundle/build-skill.process.test.ts',
  'store/file/event-log.process.test.ts',
  'store/http/stores.process.test.ts',
  'test/cli/code-cache.process.test.ts',
  'test/cli/light-loading.process.test.ts',
  'test/cli/mounts.server.test.ts',
  'test/package.process.test.ts',
  'test/skills/environment.process.test.ts',
  'test/temporal-plugin.server.test.ts',
  'test/temporal-plugin.vm.test.ts',
  'workers/embedded/api-door.process.test.ts',
  'workers/embedded/stop-stack.process.test.ts',
  'workers/skills/session-attacker.server.test.ts',
];
const listOwnProcess = (suffix: string): string[] => OWN_PROCESS.filter((file) => file.endsWith(`.${suffix}`));

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const at = LONG_FILES.findIndex((name) => moduleId.endsWith(name));
      return at === -1 ? LONG_FILES.length : at;
    };
    // Isolated files first: one of them between the others would end a process that these share.
    const groupOf = ({ project }: TestSpecification): number => (project.config.isolate ? 0 : 1);
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => groupOf(one) - groupOf(other) || placeOf(one) - placeOf(other));
  }
}

export default defineConfig({
  test: {
    // A run never writes a snapshot of its own: a new title without its snapshot fails here as it fails in CI.
    update: 'none',
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'pure',
          expect: EXPECT,
          include: every('test.ts'),
          exclude: [...NOT_TESTS, ...IN_GROUPS],
          // Some files wait for timers, so one more than there are CPUs.
          maxWorkers: WORKERS + 1,
          // Most files load the same modules, and loading takes a third of the CPU time of isolated files.
          // test/structure/isolation.test.ts keeps the files of one process apart.
          isolate: false,
          ...LIMITS,
        },
      },
      {
        test: {
          name: 'isolated',
          expect: EXPECT,
          include: every('isolated.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: WORKERS + 1,
          ...LIMITS,
        },
      },
      {
        test: {
          name: 'process',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: every('process.test.ts'),
          exclude: [...NOT_TESTS, ...OWN_PROCESS],
          isolate: false,
          globalSetup: ['test/rig/queues/nats-program.setup.ts'],
          // Each waits for its programs a fifth of its time.
          maxWorkers: WORKERS + 1,
          sequence: { groupOrder: 1 },
          ...LIMITS,
        },
      },
      {
        test: {
          name: 'process-own',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: listOwnProcess('process.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: WORKERS + 1,
          sequence: { groupOrder: 1 },
          ...LIMITS,
        },
      },
      {
        test: {
          name: 'server',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: every('server.test.ts'),
          exclude: [...NOT_TESTS, ...OWN_PROCESS],
          isolate: false,
          maxWorkers: SERVER_WORKERS,
          // Groups with limits of their own take turns, so that files of any groups can be named in one call.
          sequence: { groupOrder: 2 },
          globalSetup: SERVER_SETUP,
          ...LIMITS,
        },
      },
      {
        test: {
          name: 'server-own',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: listOwnProcess('server.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: SERVER_WORKERS,
          sequence: { groupOrder: 2 },
          globalSetup: SERVER_SETUP,
          ...LIMITS,
        },
      },
      {
        test: {
          name: 'vm',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: every('vm.test.ts'),
          exclude: [...NOT_TESTS, ...ALONE, ...OWN_PROCESS],
          isolate: false,
          // Each keeps half a CPU busy.
          maxWorkers: 4,
          sequence: { groupOrder: 3 },
          globalSetup: ['test/rig/servers/host-pieces.setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'vm-own',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: listOwnProcess('vm.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: 4,
          sequence: { groupOrder: 3 },
          globalSetup: ['test/rig/servers/host-pieces.setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'vm-alone',
          setupFiles: SETUP_FILES,
          expect: EXPECT,
          include: ALONE,
          exclude: NOT_TESTS,
          maxWorkers: 1,
          sequence: { groupOrder: 4 },
          globalSetup: ['test/rig/servers/host-pieces.setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'agents',
          expect: EXPECT,
          include: every('agents.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: 1,
          sequence: { groupOrder: 5 },
          globalSetup: ['test/rig/servers/host-pieces.setup.ts', 'test/rig/vms/agent-clis.setup.ts'],
          // A command line takes half a minute to start on an emulated CPU, and a test has up to four of them; alone it takes up to 90 s.
          testTimeout: 480_000,
          hookTimeout: 480_000,
        },
      },
      {
        test: {
          name: 'clock',
          expect: EXPECT,
          include: every('clock.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: 1,
          sequence: { groupOrder: 6 },
          globalSetup: ['test/rig/servers/host-pieces.setup.ts'],
          testTimeout: 900_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'kvm',
          expect: EXPECT,
          include: every('kvm.test.ts'),
          exclude: NOT_TESTS,
          maxWorkers: 1,
          sequence: { groupOrder: 7 },
          globalSetup: ['test/rig/servers/host-pieces.setup.ts'],
          testTimeout: 1_800_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
