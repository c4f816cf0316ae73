/** Files that programs run or read unasked have a mark, and ordinary files have no mark. */
import { describe, expect, it } from 'vitest';
import { cpuMsOf } from '../test/rig/cpu-time.ts';
import { findReasons } from './notable-files.ts';

/** At least one file of each kind of program, by the reason of the mark. */
const MARKED: Readonly<Record<string, string>> = {
  hooks: `.githooks/pre-commit .husky/pre-push hooks/post-checkout .pre-commit-config.yaml lefthook.yml .lefthook-local.yml .overcommit.yml
    .lintstagedrc.json .simple-git-hooks.json .commitlintrc.js captainhook.json`,
  'runs in CI': `.github/workflows/test.yml .github/actions/x/action.yml .gitlab-ci.yml .circleci/config.yml .buildkite/pipeline.yml .travis.yml
    appveyor.yml azure-pipelines.yml bitbucket-pipelines.yml .drone.yml .woodpecker.yaml Jenkinsfile deploy/Jenkinsfile.release .cirrus.yml
    .semaphore/semaphore.yml .tekton/run.yaml cloudbuild.yaml buildspec.yml .teamcity/settings.kts .forgejo/workflows/a.yml
    .gitea/workflows/a.yml .goreleaser.yaml .releaserc renovate.json .mergify.yml .readthedocs.yaml bitrise.yml atlantis.yaml .moon/toolchain.yml .arcconfig`,
  'runs on deployment': `netlify.toml vercel.json fly.toml Procfile heroku.yml serverless.yml .ebextensions/a.config skaffold.yaml Tiltfile
    wrangler.toml infra/main.tf ansible.cfg .ansible.cfg kustomization.yaml .htaccess .user.ini app.service crontab .ddev/config.yaml .lando.yml molecule/default/converge.yml`,
  'runs on install or build': `package.json web/package.json package-lock.json yarn.lock pnpm-lock.yaml .npmrc .yarnrc.yml .pnpmfile.cjs .pnp.cjs
    bunfig.toml binding.gyp deno.json vite.config.ts next.config.mjs jest.config.js karma.conf.js .eslintrc.cjs .prettierrc.js .babelrc
    Gruntfile.js gulpfile.js tsconfig.json vitest.setup.ts .storybook/main.ts webpack.prod.js nx.json turbo.json nodemon.json typedoc.json tauri.conf.json
    electron-builder.yml truffle-config.js .remarkrc dprint.json biome.json .watchmanconfig
    setup.py setup.cfg pyproject.toml conftest.py tests/conftest.py tox.ini noxfile.py pytest.ini requirements.txt requirements-dev.txt Pipfile
    poetry.lock uv.lock pip.conf .pypirc x.pth sitecustomize.py fabfile.py tasks.py SConstruct wscript .pylintrc mypy.ini docs/conf.py mkdocs.yml dvc.yaml dbt_project.yml jupyter_server_config.py
    Gemfile Gemfile.lock x.gemspec Rakefile lib/a.rake .gemrc .bundle/config .rspec config.ru Guardfile Podfile fastlane/Fastfile Vagrantfile _config.yml _plugins/a.rb
    build.rs Cargo.toml Cargo.lock .cargo/config.toml rust-toolchain.toml go.mod go.sum go.work magefile.go build.zig Package.swift
    Makefile makefile GNUmakefile Makefile.am rules.mk CMakeLists.txt x.cmake CMakePresets.json configure configure.ac autogen.sh m4/a.m4
    meson.build BUILD.gn conanfile.py vcpkg.json xmake.lua premake5.lua Kbuild Tupfile book.toml Trunk.toml bacon.toml
    pom.xml build.gradle build.gradle.kts settings.gradle gradle.properties gradle/wrapper/gradle-wrapper.properties gradlew mvnw
    .mvn/extensions.xml build.xml build.sbt project/plugins.sbt build.sc project.clj deps.edn .bsp/sbt.json .scalafix.conf
    WORKSPACE MODULE.bazel BUILD.bazel pkg/BUILD rules.bzl .bazelrc BUCK .buckconfig
    x.csproj Directory.Build.props Directory.Build.targets nuget.config global.json composer.json composer.lock phpunit.xml artisan phpcs.xml psalm.xml ecs.php
    mix.exs rebar.config dune x.opam stack.yaml x.cabal Setup.hs shard.yml x.nimble pubspec.yaml cpanfile Makefile.PL .Rprofile Snakefile .formatter.exs .credo.exs .lintr .luacheckrc startup.m
    justfile .justfile Taskfile.yml Earthfile Dockerfile Dockerfile.dev Containerfile docker-compose.yml compose.yaml flake.nix shell.nix
    devbox.json .tool-versions renv/activate.R latexmkrc .latexmkrc .clj-kondo/config.edn voidbox.yaml`,
  'runs in shells or debuggers': `.bashrc .bash_profile .profile .zshrc .zshenv .kshrc .cshrc .inputrc .config/fish/config.fish .env .env.local .envrc
    .mise.toml mise.toml .rvmrc .tmux.conf .screenrc .gdbinit sub/.gdbinit .lldbinit a-gdb.py .pdbrc .irbrc .pryrc .psqlrc .sqliterc
    .ghci .ssh/config .ssh/authorized_keys .gnupg/gpg.conf .netrc .gitconfig .hgrc .curlrc .wgetrc .ripgreprc .aws/config .kube/config
    .xinitrc .config/autostart/x.desktop .local/bin/x LaunchAgents/x.plist .forward .procmailrc .tigrc .bashrc.d/a profile.d/a.sh login.sql`,
  'runs in editors': `.vscode/tasks.json .vscode/settings.json .vscode/launch.json x.code-workspace .idea/workspace.xml x.iml .run/a.run.xml
    .fleet/run.json .zed/tasks.json .devcontainer/devcontainer.json .devcontainer.json .gitpod.yml .vimrc .exrc .nvimrc .nvim.lua .lvimrc
    .vim/plugin/a.vim .emacs .emacs.d/init.el .dir-locals.el x.sublime-project .helix/languages.toml .kakrc .nanorc .project .replit
    .clangd compile_commands.json .ycm_extra_conf.py .luarc.json omnisharp.json devfile.yaml`,
  'read by agents': `.claude/settings.json CLAUDE.md sub/CLAUDE.local.md AGENTS.md AGENT.md GEMINI.md QWEN.md WARP.md .codex/config.toml .cursor/rules/a.mdc
    .cursorrules .gemini/settings.json .windsurfrules .clinerules .clinerules/a.md .roo/rules/a.md .roomodes .continue/config.yaml
    .aider.conf.yml .mcp.json .github/copilot-instructions.md .github/prompts/a.prompt.md .copilot/a .codeium/a .goosehints .kiro/steering/a.md
    .junie/guidelines.md .amazonq/rules/a.md .trae/rules/a.md .augment-guidelines .opencode/agent/a.md opencode.json crush.json .openhands/setup.sh
    skills/a/SKILL.md .voidbox/fix.yaml .claude-plugin/plugin.json .cursor-plugin/plugin.json gemini-extension.json .kilocode/rules/a.md .serena/project.yml`,
  'attributes of git': '.gitattributes sub/.gitattributes .GitAttributes',
  'submodules of git': '.gitmodules',
  'a repository within it': 'HEAD sub/HEAD',
};

const files = Object.entries(MARKED).flatMap(([why, names]) => names.split(/\s+/).map((name) => [name, why] as const));

describe('files that programs run or read', () => {
  it('have a mark with the reason, in any folder and in any case', () => {
    expect(files.length).toBeGreaterThan(300);
    const isMarked = (path: string, why: string): boolean => findReasons(path).includes(why);
    const missing = files.filter(
      ([name, why]) => ![name, `deep/in/${name}`, name.toUpperCase()].every((path) => isMarked(path, why)),
    );
    expect(missing).toEqual([]);
  });

  it.each([
    'README.md',
    'LICENSE',
    'src/index.ts',
    'src/main.rs',
    'lib/head.ts',
    'docs/agent-notes.txt',
    'docs/make.md',
    'tests/a.test.ts',
    'app/config.py',
    'src/config/index.js',
    'src/webhooks.ts',
    'src/useHooks/index.ts',
    'assets/logo.png',
    'data/table.csv',
    'cmd/server/main.go',
    'src/profile.rs',
    'include/build.h',
    'src/environment.ts',
    'locale/en.json',
    'app/confirm.py',
    'src/startup.ts',
    'src/forward.rs',
    'docs/book.md',
  ])('is not %s', (path) => {
    expect(findReasons(path)).toEqual([]);
  });

  it('are found in a path of 4,096 characters, and a longer one has a mark of its own', async () => {
    const cpuMs = await cpuMsOf(() => {
      expect(findReasons(`lefthook${'.'.repeat(4_000)}/x`)).toEqual([]);
      expect(findReasons(`${'a/'.repeat(2_000)}.npmrc`)).toEqual(['runs on install or build']);
      expect(findReasons('a'.repeat(4_097))).toEqual(['a path of more than 4096 characters']);
    });
    expect(cpuMs).toBeLessThan(2_000);
  });
});
