# Loaded (PERL5OPT) into the Perl of those TAP files that read or write stored pages themselves, in which the library acts.
#
# PostgreSQL's own helper copies backups with Perl's open. In a sealed Perl that would decrypt what it reads, and the copy's
# key file comes last: so the copy is left to cp, in which the library is inert. The key directory is hidden from a sealed
# Perl, which therefore cannot remove clusters: that is left to rm.
package SealedPerl;

use strict;
use warnings;

use File::Find ();
use File::Path ();
use PostgreSQL::Test::RecursiveCopy;

no warnings 'redefine';

*PostgreSQL::Test::RecursiveCopy::copypath = sub {
    my ($from, $to, %options) = @_;
    system('cp', '-RPp', '--', $from, $to) == 0 or die "cp failed\n";
    my $wanted = $options{filterfn} or return 1;
    my @unwanted;
    my $judge = sub {
        my $name = substr($File::Find::name, length("$from/"));
        push @unwanted, "$to/$name" if $File::Find::name ne $from && !$wanted->($name);
    };
    File::Find::find({ wanted => $judge, no_chdir => 1 }, $from);
    system('rm', '-rf', '--', @unwanted) == 0 or die "rm failed\n";
    return 1;
};

*File::Path::rmtree = sub {
    my ($directory) = @_;
    system('rm', '-rf', '--', $directory) == 0 or die "rm failed\n";
    return 1;
};

1;
