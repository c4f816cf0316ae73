/**
 * Files that programs run or read without being asked: on install and build, in CI, shells, editors and agents. The
 * table is never complete, because any program may have such files.
 */

/**
 * Names match in any folder, in any case. `*` matches a part of a name; a slash at the end means all files below a
 * folder. A name with a slash inside matches the end of a path.
 */
const TABLE: readonly (readonly [why: string, names: string])[] = [
  ['attributes of git', '.gitattributes'],
  ['submodules of git', '.gitmodules'],
  // When a user enters a folder that looks like a repository, git reads its configuration, and runs the programs in it.
  ['a repository within it', 'HEAD .git/'],
  [
    'hooks',
    `.githooks/ .husky/ hooks/ .huskyrc* .pre-commit-config.y*ml .pre-commit-hooks.y*ml lefthook*.* .lefthook*.* .overcommit.yml
     .lintstagedrc* .simple-git-hooks.* simple-git-hooks.* .commitlintrc* .czrc .cz.* captainhook.json grumphp.y*ml* .trunk/`,
  ],
  [
    'runs in CI',
    `.github/workflows/ .github/actions/ .github/dependabot.y*ml action.y*ml .gitlab-ci.y*ml .gitlab-ci/ .gitlab/ .circleci/ .buildkite/
     .travis.y*ml appveyor.y*ml .appveyor.y*ml azure-pipelines*.y*ml azure-pipelines/ .azure-pipelines/ bitbucket-pipelines.y*ml
     .drone.* .woodpecker.y*ml .woodpecker/ Jenkinsfile* *.jenkinsfile .jenkins/ .cirrus.* .semaphore/ .tekton/ cloudbuild*.y*ml
     buildspec*.y*ml appspec.y*ml .teamcity/ .forgejo/ .gitea/ .builds/ .build.yml codeship-* wercker.yml screwdriver.y*ml .rultor.yml
     .ci/ ci/ .goreleaser.y*ml .releaserc* renovate.json* .renovaterc* .mergify.y*ml .evergreen.y*ml .zuul.y*ml zuul.d/ .zuul.d/
     .prow.y*ml dagger.json .harness/ .pipelines/ .concourse/ .readthedocs.y*ml readthedocs.y*ml codemagic.yaml bitrise.yml .scrutinizer.yml
     atlantis.yaml .vela.y*ml .moon/ moon.yml .arcconfig`,
  ],
  [
    'runs on deployment',
    `netlify.toml vercel.json .vercel/ now.json fly.toml render.y*ml app.y*ml Procfile* heroku.yml app.json amplify.yml
     .platform.app.y*ml .platform/ serverless.* .ebextensions/ .elasticbeanstalk/ .do/ railway.* nixpacks.toml skaffold.y*ml Tiltfile okteto.y*ml
     firebase.json wrangler.* .chalice/ zappa_settings.* samconfig.* template.y*ml cdk.json Pulumi*.y*ml *.tf *.tf.json terragrunt.hcl
     .terraformrc .terraform.lock.hcl *.pkr.hcl ansible.cfg .ansible.cfg playbook*.y*ml kustomization.y*ml Chart.yaml helmfile.y*ml .htaccess .user.ini
     web.config *.service *.timer *.socket crontab .crontab cron.d/ .ddev/ .lando*.y*ml .streamlit/ molecule/ .kitchen*.y*ml kitchen*.y*ml`,
  ],
  [
    'runs on install or build',
    // JavaScript
    `package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.json* deno.lock .npmrc
     .yarnrc* .yarn/ .pnpmfile.* .pnpmrc pnpm-workspace.yaml .pnp.* bunfig.toml binding.gyp *.gypi lerna.json nx.json project.json turbo.json rush.json
     *.config.js *.config.cjs *.config.mjs *.config.ts *.config.cts *.config.mts *.conf.js *.conf.cjs *.conf.ts .*rc.js .*rc.cjs
     .*rc.mjs .*rc.ts Gruntfile* Gulpfile* Jakefile* webpack.*.js .babelrc* babel.config.* .swcrc .eslintrc* .prettierrc* .stylelintrc*
     .mocharc* .nycrc* .postcssrc* .parcelrc .browserslistrc tsconfig*.json jsconfig.json angular.json *.setup.js *.setup.ts .storybook/
     .ember-cli .meteor/ .nvmrc .node-version .volta* release.config.* nodemon.json typedoc.json tauri.conf.json* electron-builder.*
     truffle-config.js wallaby.* .c8rc* .taprc .ncurc* .remarkrc* .textlintrc* .markdownlint* dprint.json* .dprint.json* biome.json* cypress.json
     .testcaferc* .watchmanconfig ionic.config.json .dependency-cruiser.* .versionrc* .changeset/` +
      // Python
      ` setup.py setup.cfg pyproject.toml conftest.py tox.ini noxfile.py pytest.ini .pytest.ini requirements*.txt requirements*.in
     requirements/ constraints*.txt Pipfile poetry.lock Pipfile.lock poetry.toml uv.lock uv.toml pdm.lock .pdm* pip.conf .pip/ .pypirc *.pth sitecustomize.py
     usercustomize.py fabfile.py tasks.py dodo.py SConstruct SConscript wscript waf environment.y*ml .condarc conda*.y*ml meta.yaml hatch.toml
     hatch_build.py build.py .pylintrc mypy.ini pylintrc .mypy.ini .flake8 .coveragerc pixi.toml pixi.lock MANIFEST.in .python-version conf.py mkdocs.y*ml dbt_project.yml
     dvc.yaml MLproject prefect.yaml pyrightconfig.json ipython_config.py jupyter_*config.py .bandit` +
      // Ruby
      ` Gemfile* gems.rb gems.locked *.gemspec Rakefile* rakelib/ *.rake .gemrc .bundle/ .rspec .rubocop.y*ml config.ru Guardfile Capfile
     fastlane/ Fastfile Podfile* *.podspec Brewfile* Vagrantfile Berksfile Dangerfile Appraisals Thorfile .ruby-version _config.y*ml _plugins/ .yardopts .simplecov` +
      // Rust, Go, Zig, Swift, C and C++
      ` build.rs Cargo.toml Cargo.lock .cargo/ rust-toolchain* clippy.toml .clippy.toml go.mod go.sum go.work go.work.sum magefile.go
     magefiles/ tools.go .air.toml build.zig build.zig.zon Package.swift Package.resolved project.pbxproj *.xcconfig *.xcscheme Cartfile*
     Makefile* GNUmakefile *.mk *.mak *.make CMakeLists.txt *.cmake CMakePresets.json CMakeUserPresets.json configure autogen.sh configure.*
     bootstrap *.m4 bootstrap.sh meson.build meson_options.txt meson.options *.ninja BUILD.gn *.gni .gn conanfile.* vcpkg.json
     vcpkg-configuration.json xmake.lua premake*.lua Kbuild Kconfig* *.pro *.pri Jamfile* Jamroot* Tupfile* Tuprules.* book.toml Trunk.toml bacon.toml Cross.toml
     dist-workspace.toml` +
      // JVM
      ` pom.xml *.gradle *.gradle.kts gradle.properties gradle/ gradlew libs.versions.toml gradlew.bat buildSrc/ build-logic/ .gradle/
     mvnw .mvn/ mvnw.cmd .m2/ settings.xml build.xml ivy*.xml build.sbt *.sbt .sbtopts .jvmopts project/*.scala project/build.properties build.sc build.mill
     project.clj deps.edn bb.edn shadow-cljs.edn build.boot profiles.clj lombok.config .java-version .sdkmanrc .bsp/ .metals/ .bloop/ .sbtrc .scalafix.conf` +
      // Bazel and its like
      ` WORKSPACE MODULE.bazel* WORKSPACE.* BUILD *.bzl BUILD.bazel .bazelrc *.bazelrc .bazelversion .bazeliskrc BUCK TARGETS .buckconfig*
     pants.toml pants.ini please.build .plzconfig*` +
      // .NET and PHP
      ` *.csproj *.fsproj *.vbproj *.vcxproj *.proj *.sln *.slnx *.props *.targets *.rsp nuget.config .nuget/ global.json packages.config
     packages.lock.json build.cake paket.* dotnet-tools.json *.cake composer.json composer.lock auth.json phpunit.xml* .php-cs-fixer*
     phpstan*.neon* rector.php artisan php.ini phpcs.xml* .phpcs.xml* psalm.xml* ecs.php infection.json* castor.php` +
      // Other languages
      ` mix.exs mix.lock rebar.config* rebar.lock dune *.opam dune-project stack.yaml* *.cabal package.yaml cabal.project* Setup.hs
     shard.yml *.nimble config.nims nim.cfg dub.json dub.sdl pubspec.yaml pubspec.lock build.yaml Project.toml Manifest.toml *.rockspec
     cpanfile* Makefile.PL Build.PL dist.ini DESCRIPTION .Rprofile .Renviron renv/ renv.lock latexmkrc .latexmkrc .clj-kondo/ Snakefile nextflow.config elm.json
     foundry.toml Anchor.toml Scarb.toml project.godot *.csx spago.* *.asd .formatter.exs .credo.exs .proverc .lintr _targets.R .luacheckrc .busted startup.m startup.jl` +
      // Runners, containers, environments
      ` justfile .justfile *.just Taskfile*.y*ml Earthfile Dockerfile* *.dockerfile Containerfile* docker-compose*.y*ml compose*.y*ml
     docker-bake.* .docker/ flake.nix flake.lock *.nix guix.scm manifest.scm channels.scm devbox.* devenv.* apt.txt postBuild start.sh install.sh
     setup.sh build.sh Makefile.toml .tool-versions .asdfrc voidbox.y*ml`,
  ],
  [
    'runs in shells or debuggers',
    `.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .login .logout .zshrc .zshenv .zprofile .zlogin .zlogout
     .kshrc .mkshrc .cshrc .tcshrc .inputrc config.fish .env .env.* .envrc .direnvrc mise*.toml .mise* .rtx.toml .autoenv* .rvmrc
     .xinitrc .xprofile .xsession* .Xresources .Xdefaults .pam_environment .tmux.conf .screenrc .gdbinit .gdbearlyinit gdbinit *-gdb.py
     *-gdb.scm .lldbinit* .pdbrc* .pythonrc* .pystartup .irbrc .pryrc .psqlrc .sqliterc .my.cnf .mongorc.js .mongoshrc.js .ghci .guile
     .sbclrc .octaverc .perldb .perltidyrc .iex.exs .ocamlinit .utoprc .lessfilter .lesskey .mailcap .muttrc .dbxinit .radare2rc
     .bazaar/ .ssh/ authorized_keys .gnupg/ .netrc _netrc .pgpass .gitconfig .git-credentials .hgrc .hg/ hgrc .subversion/ .curlrc .wgetrc
     .ripgreprc .ackrc .aws/ .azure/ .kube/ .config/ .local/ .julia/ .dockercfg Microsoft.PowerShell_profile.ps1 profile.ps1 *.desktop
     LaunchAgents/ LaunchDaemons/ autorun.inf desktop.ini .forward .procmailrc .tigrc .bashrc.d/ profile.d/ .oh-my-zsh/ .hammerspoon/ .skhdrc .xbindkeysrc login.sql`,
  ],
  [
    'runs in editors',
    `.vscode/ *.code-workspace .idea/ *.iml *.ipr *.iws .run/ .fleet/ .zed/ .nova/ .vs/ .devcontainer/ .devcontainer.json .gitpod.*
     .ona/ .vimrc _vimrc .gvimrc .exrc .nvimrc .nvim.lua .lvimrc .local.vimrc .ideavimrc .vim/ .nvim/ init.vim .vimspector.json
     .emacs .emacs.d/ .dir-locals*.el .projectile init.el *.sublime-* .atom/ .helix/ .kakrc .nanorc kakrc .settings/ .project .classpath
     .factorypath .theia/ .stackblitzrc .replit .codesandbox/ replit.nix .clangd compile_commands.json .ycm_extra_conf.py .ccls*
     .tern-project .luarc.json* .neoconf.json coc-settings.json .lsp.json .kateproject .brackets.json *.komodoproject nbproject/ omnisharp.json devfile.yaml
     .devfile.yaml`,
  ],
  [
    'read by agents',
    `.claude/ .claude.json CLAUDE*.md AGENT.md AGENTS*.md GEMINI*.md QWEN.md WARP.md CRUSH.md JULES.md SKILL.md .codex/ .cursor/ .cursorrules
     .cursorignore .gemini/ .geminiignore .windsurf/ .windsurfrules .clinerules .clinerules/ .cline/ .roo/ .roorules* .roomodes .continue/ .continuerc*
     .aider* .mcp.json mcp.json mcp_config.json .github/copilot-instructions.md copilot-instructions.md .github/instructions/ .github/prompts/
     .github/chatmodes/ .github/agents/ .github/skills/ *.instructions.md *.prompt.md *.chatmode.md *.agent.md .copilot/ .codeium/ .amp/ .agents/ .agent/ .goosehints
     .goose/ .kiro/ .junie/ .amazonq/ .trae/ .augment/ .augment-guidelines .rules .qwen/ .opencode/ opencode.json* .crush.json crush.json
     .openhands/ .openhands_instructions .factory/ .devin/ .sourcegraph/ .cody/ .tabnine/ .zencoder/ .pearai/ .plandex/ .jules/ .voidbox/
     memory-bank/ replit.md llms.txt .promptfoo* .sweep.yaml .coderabbit.y*ml .claude-plugin/ .cursor-plugin/ .codex-plugin/ gemini-extension.json .kilocode/
     .kilocodemodes .serena/ .taskmaster/ .specify/ .aiassistant/ .grok/ CODEX.md GROK.md`,
  ],
];

/** No file system allows a longer path. */
const PATH_LENGTH = 4096;

const PATTERNS = TABLE.map(([why, names]) => ({
  why,
  pattern: patternOf(names.split(/\s+/).filter((name) => name !== '')),
}));

/** Builds one expression for all names of a row, because a run may change hundreds of thousands of files. */
function patternOf(names: readonly string[]): RegExp {
  const parts = names.map((name) => {
    const text = name.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '[^/]*');
    return name.endsWith('/') ? text : `${text}$`;
  });
  return new RegExp(`(?:^|/)(?:${parts.join('|')})`, 'i');
}

/** @returns reasons for a user to check a file at this path; empty if the table does not contain it */
export function findReasons(path: string): readonly string[] {
  if (path.length > PATH_LENGTH) return [`a path of more than ${PATH_LENGTH} characters`];
  return PATTERNS.flatMap(({ why, pattern }) => (pattern.test(path) ? [why] : []));
}
