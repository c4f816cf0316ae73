/** The tools of one service that makes versions of deployments and starts their runs. */
import { readAllowedSources } from '../../client/embedded/allowed-sources.ts';
import { readNotifyHosts } from '../../client/embedded/notify-hosts.ts';
import { findClosedTarget } from '../../http/guarded-post.ts';
import type { Environment } from '../../setup/environment.ts';
import { openVersionFolders } from '../../store/open-uploads.ts';
import type { OpenAccess } from '../access/access-opener.ts';
import { isHostOpened } from '../notifications/opened-hosts.ts';
import { findMissingSecrets, readSecrets } from '../secrets/read-secrets.ts';
import { findSecretKeyFile } from '../secrets/secret-keys.ts';
import type { DeployTools } from './deploy.ts';
import { createVersionCompiler } from './version-compiler.ts';

export type DeployingTools = Omit<DeployTools, 'triggers' | 'uploads'>;

export interface DeployService {
  /** Returns the tools, which it opens at the first call. */
  open(): DeployingTools;
  close(): void;
}

export function createDeploying(env: Environment, access: OpenAccess): DeployService {
  let tools: DeployingTools | null = null;
  return {
    open: () => (tools ??= openTools(env, access)),
    close: () => tools?.compiler.close(),
  };
}

function openTools(env: Environment, access: OpenAccess): DeployingTools {
  const openSecrets = async () => (await access('find')).triggers.secrets;
  return {
    folders: openVersionFolders(env),
    compiler: createVersionCompiler({ env }),
    readAllowedSources: () => readAllowedSources(env.stateDir),
    listMissingSecrets: async (deployment, names) =>
      await findMissingSecrets(deployment, names, { secrets: await openSecrets() }),
    async findClosedTarget(url) {
      const hosts = readNotifyHosts(env.stateDir);
      return await findClosedTarget(url, { isOpened: (host, port) => isHostOpened(hosts, host, port) });
    },
    async readSecrets(deployment, names) {
      const place = { secrets: await openSecrets(), keyFile: findSecretKeyFile(env), nowMs: Date.now() };
      // `startRun` names the missing ones.
      return (await readSecrets(deployment, names, place)).values;
    },
  };
}
