import { withService } from '../../../app/access/token-service.ts';
import type { DeploymentJson } from '../../../app/deployments/manage.ts';
import type { ServiceClient } from '../../../http/service-client.ts';
import { createForeignError } from '../../access/answers.ts';
import { defineCommand } from '../../command.ts';
import { parseDeployments } from '../../deployments/answers.ts';
import { EXIT } from '../../exit-code.ts';
import { renderDeployments } from '../../render/deployments/deployments.ts';

/** The most deployments that the API gives at once. */
const PAGE = 200;
/** A service whose pages never end is not one of Voidbox. */
const MOST_PAGES = 10_000;

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: () => undefined,
  async execute(_args, options, context) {
    const { stdout, stderr } = context;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const deployments = await withService(context, { onProgress, makesDatabase: false }, readAll);
    if (options.json === true) {
      await stdout.write(`${JSON.stringify({ deployments })}\n`);
      return EXIT.success;
    }
    const layout = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    if (deployments.length === 0)
      await stderr.write(context.advise('There are no deployments. Make one: voidbox deploy FILE\n'));
    else await stdout.write(`${renderDeployments(deployments, layout).join('\n')}\n`);
    return EXIT.success;
  },
});

async function readAll(client: ServiceClient): Promise<readonly DeploymentJson[]> {
  const deployments: DeploymentJson[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = parseDeployments(await client.readJson({ path: ['deployments'], query: { limit: PAGE, cursor } }));
    deployments.push(...page.deployments);
    if (page.next === null) return deployments;
    if (page.next === cursor) break;
    cursor = page.next;
  }
  throw createForeignError();
}
