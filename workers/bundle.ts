/** Loads the workflows of a worker: from the bundle of the build, or else by bundling them now. */
import { existsSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { findPackageRoot } from '../setup/package-root.ts';

export const BUNDLE_FILE = 'dist/workflow-bundle.js';

export type WorkflowBundle = { readonly codePath: string } | { readonly code: string };

export function findBuiltBundle(root: string = findPackageRoot()): WorkflowBundle | null {
  const codePath = join(root, BUNDLE_FILE);
  return existsSync(codePath) ? { codePath } : null;
}

/**
 * `workflowsPath` is workflows/index. All runs of a thread share its modules: modules of its own for each run would be
 * compiled and optimized again for each run, which costs a stage an eighth of its CPU time. The source map comes without the sources themselves: stack traces need
 * names and lines, and the texts are most of the bundle and of the worker's memory for it.
 */
export async function bundleWorkflows(workflowsPath: string): Promise<string> {
  const resolveBeside = (name: string): string => join(dirname(workflowsPath), `${name}${extname(workflowsPath)}`);
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    payloadConverterPath: resolveBeside('payload-converter'),
    workflowInterceptorModules: [resolveBeside('interceptors')],
    preloadModules: [workflowsPath],
    // package.json says that no module has side effects, and webpack leaves out a module that is only loaded.
    webpackConfigHook: (config) => ({
      ...config,
      module: {
        ...config.module,
        rules: [...(config.module?.rules ?? []), { test: workflowsPath, sideEffects: true }],
      },
    }),
    logger: SILENT,
  });
  return code.replace(
    /(\/\/# sourceMappingURL=data:application\/json;[^,]*base64,)([A-Za-z0-9+/=]+)\s*$/,
    (_, head: string, map: string) => {
      const { sourcesContent: _texts, ...rest } = JSON.parse(Buffer.from(map, 'base64').toString('utf8')) as {
        readonly sourcesContent?: unknown;
      };
      return `${head}${Buffer.from(JSON.stringify(rest)).toString('base64')}\n`;
    },
  );
}

const ignore = (): void => undefined;
/** Drops webpack's statistics, which do not help users; its errors are thrown. */
const SILENT = { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };
