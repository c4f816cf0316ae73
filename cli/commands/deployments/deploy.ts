import { sendDeployment } from '../../../app/deployments/send-deployment.ts';
import { withService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { parseDeployed } from '../../deployments/answers.ts';
import { renderDeployed } from '../../render/deployments/deployments.ts';
import { renderDiagnostics } from '../../render/spec/diagnostics.ts';
import { parseParam } from '../../start/spec-options.ts';

interface Options {
  readonly name?: string;
  readonly param?: Readonly<Record<string, string>>;
  readonly mockAgents?: boolean;
  readonly paused?: boolean;
  readonly dryRun?: boolean;
  readonly allowMounts?: readonly string[];
  readonly allowGit?: readonly string[];
  readonly notify?: string;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--name', '--param', '--dry-run'],
    examples: [
      ['voidbox deploy review.yaml --dry-run', 'show what would change'],
      ['voidbox deploy review.yaml', 'make a version and enable its triggers'],
      ['voidbox deploy review.yaml --name review-eu --param region=eu', 'a second deployment of the same spec'],
    ],
    notes: [
      [
        'A version',
        'A version is the spec, every file that it names, and its triggers. It never changes: deploy again after a change.',
      ],
      [
        'Definitions',
        'The code of a definition runs once, on this machine. The version has the spec that it makes, and none of its code.',
      ],
      [
        'Its runs',
        'Events start its runs, so the runs get no login and no variable of a person: only secrets of `voidbox secret set`. They mount the files of the version, `ro`.',
      ],
    ],
    exitCodes: [
      ['0', 'the version is enabled, or a dry run found no mistake'],
      ['2', 'the spec or an option has a mistake, or a secret is missing'],
      ['3', 'environment: the service or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('<file>', 'a spec in YAML or JSON, or a definition in TypeScript or JavaScript')
      .option('--name <name>', 'the name of the deployment (default: the name of the spec)')
      .option('--param <name=value>', 'set a parameter of the spec; `params` of a trigger override it', parseParam)
      .option('--mock-agents', 'the mock agent plays the agents of all runs, to try the deployment without a key')
      .option('--notify <file>', 'receivers of notifications beside those of the spec: a file with the key `notify`')
      .option('--paused', 'a new deployment begins paused')
      .option('--dry-run', 'show what would change, and change nothing')
      .option('--allow-mounts <folder...>', 'folders of the service that its runs may mount `ro`; for its owner only')
      .option('--allow-git <host/path...>', 'repositories of the network that its runs may fetch');
  },
  async execute([file = ''], options, context) {
    const { stdout, stderr } = context;
    const { name = null, param = {}, allowMounts = [], allowGit = [] } = options;
    const { mockAgents = false, paused = false, dryRun = false } = options;
    const isJson = options.json === true;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const layout = { style: stderr.style, width: stderr.width() };
    const { notify = null } = options;
    const allowed = { allowMounts, allowGit };
    const request = { file, name, params: param, mockAgents, isPaused: paused, isDry: dryRun, notify, ...allowed };
    const answer = await withService(context, { onProgress, makesDatabase: !dryRun }, async (client) =>
      sendDeployment(request, {
        client,
        context,
        onProgress,
        onDiagnostics: async (diagnostics, sources) => {
          if (diagnostics.length === 0) return;
          const isRefused = diagnostics.some(({ severity }) => severity === 'error');
          if (isJson && isRefused) await stderr.write(`${JSON.stringify({ diagnostics })}\n`);
          else if (!isJson) await stderr.write(renderDiagnostics(diagnostics, sources, layout));
        },
      }),
    );
    const deployed = parseDeployed(answer);
    const text = isJson
      ? JSON.stringify(deployed)
      : renderDeployed(deployed, { isDry: dryRun, style: stdout.style }).join('\n');
    await stdout.write(`${text}\n`);
    return EXIT.success;
  },
});
