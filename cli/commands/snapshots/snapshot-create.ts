import { resolveBaseDir, type BaseDirOption } from '../../../app/start/base-dir.ts';
import { compileRun } from '../../../app/start/compile-run.ts';
import { readSettings } from '../../../app/start/host-settings.ts';
import { makeDisks } from '../../../app/start/plan-images.ts';
import { listBaseSizes } from '../../../app/snapshots/base-sizes.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { snapshotFolder } from '../../../setup/environment.ts';
import { readSnapshotFolder } from '../../../setup/snapshots/snapshot-store.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { describeSize, renderBase } from '../../render/host/snapshots.ts';
import { createPrepared } from '../../start/create-prepared.ts';
import { showNotices } from '../../start/compile-notices.ts';
import { resolveImagePlaces } from '../../start/run-options.ts';
import { addBaseDirOption, parseImage, parseParam } from '../../start/spec-options.ts';

interface Options extends BaseDirOption {
  readonly json?: boolean;
  readonly param?: Record<string, string>;
  readonly image?: Record<string, string>;
  readonly stage?: string;
  readonly name?: string;
  readonly replace?: boolean;
  readonly withSecrets?: boolean;
  readonly full?: boolean;
  readonly diff?: boolean;
}

export const command = defineCommand<Options>({
  beforeFirst: 'Write a first spec: voidbox init',
  configure: (command) => {
    command
      .argument('<file>', 'a spec, or a definition in TypeScript or JavaScript; - reads a spec from standard input')
      .option('--param <name=value>', 'set a parameter of the spec; repeatable', parseParam)
      .option(
        '--image <name=path>',
        'use a folder, tar or OCI layout for an image name of the spec; repeatable',
        parseImage,
      )
      .option('--stage <name>', 'run this stage in a VM and keep its disk as a prepared sandbox')
      .option('--name <name>', 'with --stage: the name for `sandbox.snapshot` of specs')
      .option('--replace', 'with --stage: delete an older prepared sandbox of the name')
      .option('--with-secrets', 'with --stage: keep the disk although the VM got secrets, and mark it')
      .option('--full', 'with --stage: keep the memory of the VM too, on a host with hardware KVM')
      .option(
        '--diff',
        'with --stage: keep what changed since the prepared sandbox with memory from which the VM continues',
      )
      .addHelpText(
        'after',
        `
For each size of the VMs of a spec, a VM boots, its keeper saves it, and a second VM starts from the snapshot. No stage
runs. VMs of one size have equal memory, vCPUs, image and VMM, and either all or none of them have read-only mounts.
The first run of a spec makes the same snapshots.

With --stage, the commands of a stage and of the earlier stages of its VM run, without a server and without a run. Their
output goes to standard error. The disk is kept in the state folder: /workspace, the home folder, /tmp.

With --full, VMs continue with the memory too: files in memory and caches. They need voidbox-vmm, and the same memory,
vCPUs, disk and image. With --diff, \`sandbox.snapshot\` of the stage names such a prepared sandbox. At most eight of them
form a chain.`,
      );
    addBaseDirOption(command);
  },
  async execute([file = ''], options, context) {
    refuseWithoutStage(options);
    const { env, stdout, stderr } = context;
    const { param: params = {}, json = false } = options;
    const baseDir = resolveBaseDir(options, context.cwd);
    const compiled = await compileRun(
      file,
      {
        params,
        settings: readSettings(context),
        ...(baseDir === undefined ? {} : { baseDir }),
        mode: null,
        mock: () => null,
        mockAgents: false,
        images: resolveImagePlaces(options, context),
        onNotice: showNotices(context, json),
      },
      context,
    );
    const note = (line: string): void => void stderr.write(`==> ${line}\n`);
    await makeDisks(compiled.images, env, note);
    if (options.stage !== undefined) {
      const { stage, name = null, replace = false, withSecrets = false } = options;
      const memory = readMemory(options);
      const request = { plan: compiled.plan, stage, name, replace, withSecrets, memory, baseDir: compiled.baseDir };
      return await createPrepared(request, json, context);
    }
    const { sizes, bootingVms } = listBaseSizes(compiled.plan);
    // Loaded here and not above: a mistake in the spec is reported without the code that starts VMs.
    const { makeBases } = await import('../../../app/snapshots/make-bases.ts');
    const stop = new AbortController();
    const listening = context.onInterrupt(() => stop.abort(new Error('interrupted')));
    try {
      const reports = await makeBases(sizes, env, {
        signal: stop.signal,
        onProgress: note,
        onStart: async (size, index) => {
          await stderr.write(`==> size ${index + 1} of ${sizes.length}: ${describeSize(size)}\n`);
        },
        onReport: async (report) => {
          if (json) return;
          const { result } = report;
          const bytes = result.outcome === 'failed' ? null : await findSize(result.key, env);
          await stdout.write(`${renderBase(report, bytes, stdout.style)}\n`);
        },
      });
      if (json) {
        const snapshots = await Promise.all(
          reports.map(async ({ size, result }) => ({
            ...size,
            ...result,
            ...(result.outcome === 'failed' ? {} : { sizeBytes: await findSize(result.key, env) }),
          })),
        );
        await stdout.write(`${JSON.stringify({ snapshots, bootingVms })}\n`);
      } else if (sizes.length === 0)
        await stdout.write(
          bootingVms > 0 ? 'all VMs of the spec boot (`snapshot: none`)\n' : 'no stage of the spec has a VM\n',
        );
      return reports.some(({ result }) => result.outcome === 'failed') ? EXIT.environment : EXIT.success;
    } catch (error) {
      if (stop.signal.aborted) return EXIT.interrupted;
      throw error;
    } finally {
      listening.dispose();
    }
  },
});

/** @throws AppError for an option that has no effect */
function refuseWithoutStage({ stage, name, replace, withSecrets, full, diff }: Options): void {
  if (full === true && diff === true)
    throw createUsageError(
      '--full and --diff exclude each other',
      'Set --full for all memory, or --diff for the changes',
    );
  if (stage !== undefined) return;
  const given = [
    ...(name === undefined ? [] : ['--name']),
    ...(replace === true ? ['--replace'] : []),
    ...(withSecrets === true ? ['--with-secrets'] : []),
    ...(full === true ? ['--full'] : []),
    ...(diff === true ? ['--diff'] : []),
  ];
  if (given.length > 0)
    throw createUsageError(`${given.join(', ')} needs --stage`, 'Name the stage whose disk is kept: --stage NAME');
}

function readMemory({ full, diff }: Options): 'all' | 'changed' | null {
  if (diff === true) return 'changed';
  return full === true ? 'all' : null;
}

/** Null: it was deleted since. */
async function findSize(key: string, env: { readonly cacheDir: string }): Promise<number | null> {
  const { snapshots } = await readSnapshotFolder(snapshotFolder(env));
  return snapshots.find((each) => each.key === key)?.sizeBytes ?? null;
}
